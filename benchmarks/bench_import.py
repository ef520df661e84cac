"""How long `import skribbon` takes, beside scikit-learn alone: CPU seconds, best of several fresh interpreters."""

import subprocess
import sys

REPEATS = 7
PARTS = ("linear_model", "neural_network", "pipeline", "compose", "model_selection")  # of what skribbon is about
STATEMENTS = {
    "scikit-learn": "import " + ", ".join(f"sklearn.{part}" for part in PARTS),
    "skribbon": "import skribbon",
}


def cpu_seconds(statement):
    code = f"import time; start = time.process_time(); {statement}; print(time.process_time() - start)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def main():
    best = dict.fromkeys(STATEMENTS, float("inf"))
    for _ in range(REPEATS):  # in turns, so that a busy machine is busy for both
        for name, statement in STATEMENTS.items():
            best[name] = min(best[name], cpu_seconds(statement))
    ratio = best["skribbon"] / best["scikit-learn"]
    print(f"import: scikit-learn {best['scikit-learn']:.2f} s, skribbon {best['skribbon']:.2f} s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
