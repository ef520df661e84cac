/* The interactive page: a polynomial ridge regression with the bands of skribbon, computed in the browser.

The numbers are those of

    RibbonRegressor(make_pipeline(PolynomialFeatures(degree, include_bias=False), Ridge(alpha=penalty)),
                    alpha=alpha, noise="dof", law="normal")

for up to 1000 rows without weights or groups. tests/test_browser.py compares both. Plain JavaScript, no other scripts. */
"use strict";

const explore = (() => {
  // ---------------------------------------------------------------- quantiles
  const LANCZOS = [
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
  ];

  function logGamma(x) {
    const shifted = x - 1;
    const sum = LANCZOS.reduce((total, c, i) => total + c / (shifted + i + 1), 0.99999999999980993);
    const t = shifted + LANCZOS.length - 0.5;
    return 0.5 * Math.log(2 * Math.PI) + (shifted + 0.5) * Math.log(t) - t + Math.log(sum);
  }

  /** Regularized incomplete beta function I_x(a, b) by Lentz's continued fraction. */
  function incompleteBeta(x, a, b) {
    if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
    const front = Math.exp(
      a * Math.log(x) + b * Math.log1p(-x) + logGamma(a + b) - logGamma(a) - logGamma(b),
    ) / a;
    const away = (value) => (Math.abs(value) < 1e-300 ? 1e-300 : value);
    let c = 1, d = 1 / away(1 - ((a + b) * x) / (a + 1)), fraction = d;
    for (let m = 1; m <= 500; m++) {
      const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
      const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
      let change = 1;
      for (const term of [even, odd]) {
        d = 1 / away(1 + term * d);
        c = away(1 + term / c);
        change = c * d;
        fraction *= change;
      }
      if (Math.abs(change - 1) < 1e-15) break;
    }
    return front * fraction;
  }

  /** Newton's method from the left on a distribution function that is concave above zero: it converges from below. */
  function quantileFrom(start, level, cdf, density) {
    let x = start;
    for (let k = 0; k < 200; k++) {
      const step = (level - cdf(x)) / density(x);
      x += step;
      if (Math.abs(step) < 1e-13 * Math.max(1, x)) break;
    }
    return x;
  }

  function normalDensity(x) {
    return Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
  }

  function normalCdf(x) {
    let term = x, sum = x;
    for (let k = 3; Math.abs(term) > 1e-17 * Math.abs(sum); k += 2) {
      term *= (x * x) / k;
      sum += term;
    }
    return 0.5 + normalDensity(x) * sum;
  }

  /** Quantile of the normal distribution at a level above 1/2. */
  function normalQuantile(level) {
    return quantileFrom(0, level, normalCdf, normalDensity);
  }

  /** Quantile of Student's t at a level above 1/2; df may be infinite. */
  function studentQuantile(level, df) {
    const normal = normalQuantile(level);
    if (!Number.isFinite(df)) return normal;
    const constant = Math.exp(logGamma((df + 1) / 2) - logGamma(df / 2)) / Math.sqrt(df * Math.PI);
    const cdf = (t) => 1 - incompleteBeta(df / (df + t * t), df / 2, 0.5) / 2;
    const density = (t) => constant * Math.pow(1 + (t * t) / df, -(df + 1) / 2);
    return quantileFrom(normal, level, cdf, density);
  }

  // ---------------------------------------------------------------- small matrices
  const dot = (a, b) => a.reduce((total, value, i) => total + value * b[i], 0);
  const zeros = (p) => Array.from({ length: p }, () => new Array(p).fill(0));

  function addOuter(A, v, share) {
    for (let i = 0; i < v.length; i++) for (let j = 0; j < v.length; j++) A[i][j] += share * v[i] * v[j];
  }

  /** Inverse of a positive definite matrix, by Cholesky. */
  function inverse(A) {
    const p = A.length, L = zeros(p);
    for (let i = 0; i < p; i++) {
      for (let j = 0; j <= i; j++) {
        let rest = A[i][j];
        for (let k = 0; k < j; k++) rest -= L[i][k] * L[j][k];
        L[i][j] = i === j ? Math.sqrt(rest) : rest / L[j][j];
      }
    }
    const columns = [];
    for (let c = 0; c < p; c++) {
      const z = new Array(p).fill(0);
      for (let i = 0; i < p; i++) {
        let rest = i === c ? 1 : 0;
        for (let k = 0; k < i; k++) rest -= L[i][k] * z[k];
        z[i] = rest / L[i][i];
      }
      for (let i = p - 1; i >= 0; i--) {
        for (let k = i + 1; k < p; k++) z[i] -= L[k][i] * z[k];
        z[i] /= L[i][i];
      }
      columns.push(z);
    }
    return columns;
  }

  // ---------------------------------------------------------------- the ribbon of a polynomial ridge regression
  // Limits of skribbon/_core/thresholds.py
  const MAX_LEVERAGE = 0.99, SMALL_MEAN_LEVERAGE = 0.05, SMALL_LEVERAGE = 0.1, EASY_LEVERAGE = 0.15;
  const NORMAL_SHARE = 1.5e-3, DOMINATING = 0.4;

  const powers = (x, degree) => Array.from({ length: degree + 1 }, (_, k) => Math.pow(x, k)); // the intercept first

  /** Fit to rows {x, y}: parameters, H_r^-1, leverages, noise variance and the covariance of the parameters. */
  function fit(rows, { degree, penalty, alpha }) {
    const n = rows.length, X = rows.map((row) => powers(row.x, degree));
    const H = zeros(degree + 1), b = new Array(degree + 1).fill(0);
    rows.forEach((row, i) => {
      addOuter(H, X[i], 1 / n);
      X[i].forEach((value, k) => (b[k] += (value * row.y) / n));
    });
    for (let k = 1; k <= degree; k++) H[k][k] += penalty / n; // H_r: the intercept is not penalized
    const Hinv = inverse(H), theta = Hinv.map((row) => dot(row, b));
    const residual = rows.map((row, i) => row.y - dot(X[i], theta));
    const leverage = X.map((x) => dot(x, Hinv.map((row) => dot(row, x))) / n);
    const mean = leverage.reduce((total, h) => total + h, 0) / n;
    const capped = Math.min(mean, MAX_LEVERAGE);
    const small = mean <= SMALL_MEAN_LEVERAGE && Math.max(...leverage) < SMALL_LEVERAGE;
    const correction = small ? "HC1" : mean <= EASY_LEVERAGE ? "HC2" : "HC3";
    const factor = leverage.map((h) => {
      const own = 1 - Math.min(h, MAX_LEVERAGE);
      return correction === "HC1" ? 1 / Math.sqrt(1 - capped) : Math.pow(own, correction === "HC2" ? -0.5 : -1);
    });
    const common = correction === "HC1" ? factor[0] : 1;
    const centre = new Array(degree + 1).fill(0);
    X.forEach((x, i) => x.forEach((value, k) => (centre[k] -= (common * residual[i] * value) / n)));
    const moment = zeros(degree + 1);
    X.forEach((x, i) => addOuter(moment, x.map((v, k) => -factor[i] * residual[i] * v - centre[k]), 1 / n));
    return {
      X, theta, Hinv, leverage, moment, correction, degree,
      shrink: 1 / (n * alpha + 1),
      noise: dot(residual, residual) / (n * (1 - capped)),
      most: Math.max(n * (1 - Math.min(mean, 1)), 1),
    };
  }

  /** Degrees of freedom of the variance of v'theta, given w = H_r^-1 v; infinite with HC3. */
  function degreesOfFreedom(model, w) {
    if (model.correction === "HC3") return Infinity;
    let total = 0, fourth = 0, largest = 0;
    model.X.forEach((x, i) => {
      const c2 = dot(x, w) ** 2;
      total += c2;
      fourth += c2 * c2;
      if (model.leverage[i] > DOMINATING) largest = Math.max(largest, c2);
    });
    let df = (total * total) / fourth - 1;
    if (largest > 0) {
      const b = Math.min(Math.max(1 - largest / total, 0), 0.5);
      const others = (total - largest) ** 2 / Math.max(fourth - largest * largest, 0);
      const bounded = Math.min(others, (1 + 1.9 * Math.sqrt(b) * (1 - 0.73 * b)) / (1 - b) ** 2);
      if (bounded > df) df += Math.min(2 - 4 * b, 1) * (bounded - df);
    }
    return Math.min(Math.max(df, 1), model.most);
  }

  /** Prediction at x, and both intervals [lower, upper] of a level. */
  function intervalsAt(model, x, level) {
    const v = powers(x, model.degree), w = model.Hinv.map((row) => dot(row, v));
    const variance = model.shrink * Math.max(dot(w, model.moment.map((row) => dot(row, w))), 0);
    const df = degreesOfFreedom(model, w), upper = (1 + level) / 2;
    const z = normalQuantile(upper), t = studentQuantile(upper, df);
    const heavy = variance / (variance + model.noise) >= NORMAL_SHARE * df;
    const mean = dot(v, model.theta), half = t * Math.sqrt(variance);
    const outer = Math.hypot((heavy ? t : z) * Math.sqrt(variance), z * Math.sqrt(model.noise));
    return { x, mean, df, confidence: [mean - half, mean + half], prediction: [mean - outer, mean + outer] };
  }

  // ---------------------------------------------------------------- the page
  const X_RANGE = [-1.2, 1.2], Y_RANGE = [-2.4, 2.4], GRID = 131;
  const FEWEST_ROWS = 8, MOST_ROWS = 200; // with fewer rows than parameters only the penalty would decide
  const MARGIN = { left: 34, right: 8, top: 8, bottom: 28 };
  const truth = (x) => Math.sin(3 * x);
  const rounded = (value) => Math.round(1000 * value) / 1000; // the code below the picture has the same points
  const clamp = (value, [low, high]) => Math.min(Math.max(value, low), high);

  const SLIDERS = [
    { name: "rows", label: "rows", from: FEWEST_ROWS, to: MOST_ROWS, step: 1, start: 50, value: (s) => s },
    { name: "noise", label: "noise (std)", from: 0.05, to: 1, step: 0.05, start: 0.4, value: rounded },
    { name: "degree", label: "polynomial degree", from: 1, to: 7, step: 1, start: 5, value: (s) => s },
    { name: "penalty", label: "ridge penalty", from: -4, to: 2, step: 0.25, start: -1, value: tenTo },
    { name: "alpha", label: "alpha", from: -1, to: 1, step: 0.1, start: 0, value: tenTo },
    { name: "level", label: "confidence level", from: 50, to: 99, step: 1, start: 90, value: (s) => s / 100 },
  ];

  function tenTo(exponent) {
    return Number(Math.pow(10, exponent).toPrecision(3));
  }

  /** Random numbers between 0 and 1, the same on every visit. */
  function generator(seed) {
    let state = seed;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  /** Points of a sample: x, and the noise in standard deviations. */
  function sampler(seed) {
    const random = generator(seed);
    return () => {
      const [a, b, c] = [random(), random(), random()];
      return { x: rounded(2 * a - 1), z: Math.sqrt(-2 * Math.log(1 - b)) * Math.cos(2 * Math.PI * c), y: null };
    };
  }

  function make(tag, attributes = {}, ...children) {
    const isSvg = ["svg", "g", "path", "line", "circle", "text", "clipPath", "rect"].includes(tag);
    const node = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  /** Numbers of a Python list, in lines of at most 88 characters. */
  function listed(name, values) {
    const lines = [];
    let line = "   ";
    for (const value of values) {
      if (line.length + String(value).length + 2 > 88) {
        lines.push(line);
        line = "   ";
      }
      line += ` ${value},`;
    }
    return `${name} = np.array([\n${[...lines, line].join("\n")}\n])`;
  }

  /** Build the page within an element, and return its numbers as functions. */
  function start(root) {
    let seed = 5, draw = sampler(seed), model;
    const settings = {}, inputs = {}, points = [];
    const yOf = (point) => (point.y === null ? rounded(truth(point.x) + settings.noise * point.z) : point.y);
    const rows = () => points.map((point) => ({ x: point.x, y: yOf(point) }));
    const at = (x) => intervalsAt(model, x, settings.level);

    // elements
    const svg = make("svg", { role: "img", "aria-label": "Points, fitted curve, confidence band and prediction band" });
    const behind = make("g"), marks = make("g"), legend = make("div", { class: "explore-legend" });
    svg.append(behind, marks);
    const numbers = make("p", { class: "explore-numbers" });
    const code = make("code"), copy = make("button", { type: "button" }, "Copy");
    const sliders = make("div", { class: "explore-sliders" });
    const again = make("button", { type: "button" }, "New sample"), reset = make("button", { type: "button" }, "Reset");
    const hint = "Drag a point. Tap an empty place to add one. Double-tap a point to remove it.";
    const details = make("details", {}, make("summary", {}, "The same numbers in Python"), copy, make("pre", {}, code));
    const buttons = make("div", { class: "explore-buttons" }, again, reset, make("span", {}, hint));
    root.replaceChildren(legend, svg, numbers, buttons, sliders, details);
    for (const [name, text] of [
      ["points", "rows"], ["fit", "fit"], ["confidence", "confidence band"],
      ["prediction", "prediction band"], ["truth", "true mean"],
    ]) legend.append(make("span", { class: `explore-key explore-key-${name}` }, text));
    for (const { name, label, from, to, step, start } of SLIDERS) {
      const input = make("input", { type: "range", min: from, max: to, step, value: start, name });
      const shown = make("output");
      sliders.append(make("label", {}, make("span", {}, label, shown), input));
      inputs[name] = { input, shown };
      input.addEventListener("input", update);
    }

    // scales of the picture, in pixels
    let width = 640, height = 400, probe = 0;
    const across = (x) =>
      MARGIN.left + ((x - X_RANGE[0]) / (X_RANGE[1] - X_RANGE[0])) * (width - MARGIN.left - MARGIN.right);
    const up = (y) =>
      height - MARGIN.bottom - ((y - Y_RANGE[0]) / (Y_RANGE[1] - Y_RANGE[0])) * (height - MARGIN.top - MARGIN.bottom);
    const place = (event) => {
      const box = svg.getBoundingClientRect();
      const px = (event.clientX - box.left - across(0)) / (across(1) - across(0));
      const py = (event.clientY - box.top - up(0)) / (up(1) - up(0));
      return { x: rounded(clamp(px, X_RANGE)), y: rounded(clamp(py, Y_RANGE)) };
    };

    /** Read the sliders, match the number of points, fit and draw. */
    function update() {
      for (const { name, value } of SLIDERS) settings[name] = value(Number(inputs[name].input.value));
      while (points.length > settings.rows) points.pop();
      while (points.length < settings.rows) points.push(draw());
      refresh();
    }

    function refresh() {
      settings.rows = inputs.rows.input.value = points.length;
      model = fit(rows(), settings);
      for (const { name } of SLIDERS) {
        inputs[name].shown.textContent = name === "level" ? `${Math.round(100 * settings.level)}%` : settings[name];
      }
      paint();
      describe();
      code.textContent = asPython();
    }

    function describe() {
      const { mean, confidence, prediction } = at(probe), percent = `${Math.round(100 * settings.level)}%`;
      const span = ([low, high]) => `${low.toFixed(2)} to ${high.toFixed(2)}`;
      const inside = rows().filter(({ x, y }) => {
        const [low, high] = at(x).prediction;
        return low <= y && y <= high;
      }).length;
      numbers.textContent =
        `At x = ${probe.toFixed(2)} the fit is ${mean.toFixed(2)}. The ${percent} confidence interval of the mean ` +
        `is ${span(confidence)}, the ${percent} prediction interval ${span(prediction)}. ` +
        `The prediction band contains ${inside} of ${points.length} rows (correction ${model.correction}).`;
    }

    function asPython() {
      const base = `make_pipeline(PolynomialFeatures(${settings.degree}, include_bias=False), ` +
        `Ridge(alpha=${settings.penalty}))`;
      return [
        "import numpy as np",
        "from sklearn.linear_model import Ridge",
        "from sklearn.pipeline import make_pipeline",
        "from sklearn.preprocessing import PolynomialFeatures",
        "from skribbon import RibbonRegressor\n",
        listed("x", points.map((point) => point.x)),
        listed("y", points.map(yOf)),
        `base = ${base}`,
        `ribbon = RibbonRegressor(base, alpha=${settings.alpha}, noise="dof", law="normal")`,
        "ribbon.fit(x[:, None], y)",
        `print(ribbon.predict_interval([[${probe}]], ${settings.level}, kind="confidence"))`,
        `print(ribbon.predict_interval([[${probe}]], ${settings.level}))\n`,
      ].join("\n");
    }

    // ---------------------------------------------------------------- drawing
    function paint() {
      width = Math.max(root.clientWidth, 280);
      height = clamp(0.62 * width, [280, 440]);
      svg.setAttribute("width", width);
      svg.setAttribute("height", height);
      const grid = Array.from({ length: GRID }, (_, k) => X_RANGE[0] + (k / (GRID - 1)) * (X_RANGE[1] - X_RANGE[0]));
      const found = grid.map(at), bounded = (y) => up(clamp(y, [3 * Y_RANGE[0], 3 * Y_RANGE[1]])).toFixed(2);
      const line = (f) => found.map((row) => `${across(row.x).toFixed(2)},${bounded(f(row))}`).join("L");
      const band = (kind) => {
        const back = [...found].reverse().map((row) => `${across(row.x).toFixed(2)},${bounded(row[kind][0])}`);
        return `M${line((row) => row[kind][1])}L${back.join("L")}Z`;
      };
      const inner = make("g", { "clip-path": "url(#explore-clip)" });
      inner.append(
        make("path", { class: "explore-prediction", d: band("prediction") }),
        make("path", { class: "explore-confidence", d: band("confidence") }),
        make("path", { class: "explore-truth", d: `M${line((row) => truth(row.x))}` }),
        make("path", { class: "explore-fit", d: `M${line((row) => row.mean)}` }),
        make("line", { class: "explore-probe", x1: across(probe), x2: across(probe), y1: up(Y_RANGE[0]), y2: 0 }),
      );
      const frame = { x: MARGIN.left, y: 0, width: width - MARGIN.left - MARGIN.right, height: up(Y_RANGE[0]) };
      behind.replaceChildren(make("clipPath", { id: "explore-clip" }, make("rect", frame)), inner, axes());
      placeMarks();
    }

    function axes() {
      const group = make("g", { class: "explore-axes" }), left = MARGIN.left, floor = up(Y_RANGE[0]);
      group.append(make("line", { x1: left, x2: width - MARGIN.right, y1: floor, y2: floor }));
      group.append(make("line", { x1: left, x2: left, y1: floor, y2: MARGIN.top }));
      for (const tick of [-1, -0.5, 0, 0.5, 1]) {
        group.append(make("text", { x: across(tick), y: floor + 18, "text-anchor": "middle" }, String(tick)));
      }
      for (const tick of [-2, -1, 0, 1, 2]) {
        group.append(make("text", { x: left - 8, y: up(tick) + 4, "text-anchor": "end" }, String(tick)));
      }
      group.append(make("text", { x: width - MARGIN.right, y: floor + 18, "text-anchor": "end" }, "x"));
      group.append(make("text", { x: left + 8, y: MARGIN.top + 8 }, "y"));
      return group;
    }

    /** Put points where they belong, each below a larger circle that a finger can hit; a held circle stays the same. */
    function placeMarks() {
      while (marks.children.length > 2 * points.length) marks.lastChild.remove();
      for (let index = marks.children.length / 2; index < points.length; index++) {
        marks.append(make("circle", { class: "explore-point" }));
        marks.append(make("circle", { class: "explore-handle", r: 14, "data-index": index }));
      }
      points.forEach((point, index) => {
        for (const circle of [marks.children[2 * index], marks.children[2 * index + 1]]) {
          circle.setAttribute("cx", across(point.x));
          circle.setAttribute("cy", up(yOf(point)));
        }
        marks.children[2 * index].setAttribute("r", points.length > 100 ? 3.5 : 4.5);
      });
    }

    // ---------------------------------------------------------------- pointers: mouse, pen and touch
    let held = null, moved = false, from = null, last = { point: null, time: 0 };
    const indexOf = (event) => event.target.dataset.index;
    const nearest = (event) => {
      const box = svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
      const distance = points.map((point) => Math.hypot(across(point.x) - x, up(yOf(point)) - y));
      return points[distance.indexOf(Math.min(...distance))];
    };
    svg.addEventListener("pointerdown", (event) => {
      moved = false;
      from = [event.clientX, event.clientY];
      if (indexOf(event) === undefined) return;
      held = nearest(event); // circles of neighbours overlap
      if (event.isTrusted) svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const { x, y } = place(event);
      moved ||= from !== null && Math.hypot(event.clientX - from[0], event.clientY - from[1]) > 4; // a finger trembles
      if (held && !moved) return;
      probe = x;
      if (held) {
        Object.assign(held, { x, y });
        refresh();
      } else {
        paint();
        describe();
      }
    });
    svg.addEventListener("pointerup", (event) => {
      const twice = held !== null && held === last.point && event.timeStamp - last.time < 400;
      if (held && !moved && twice && points.length > FEWEST_ROWS) {
        points.splice(points.indexOf(held), 1);
        refresh();
      }
      last = { point: moved || twice ? null : held, time: event.timeStamp };
      held = from = null;
      code.textContent = asPython();
    });
    svg.addEventListener("pointercancel", () => (held = from = null));
    svg.addEventListener("click", (event) => {
      if (moved || points.length >= MOST_ROWS || indexOf(event) !== undefined) return;
      points.push({ ...place(event), z: 0 });
      refresh();
    });
    // without this, a finger on a point scrolls the page
    const hold = (event) => indexOf(event) !== undefined && event.preventDefault();
    svg.addEventListener("touchstart", hold, { passive: false });
    copy.addEventListener("click", () => navigator.clipboard?.writeText(code.textContent));

    function begin(newSeed) {
      seed = newSeed;
      draw = sampler(seed);
      points.length = 0;
      update();
    }
    again.addEventListener("click", () => begin(seed + 1));
    reset.addEventListener("click", () => {
      for (const { name, start } of SLIDERS) inputs[name].input.value = start;
      begin(5);
    });
    window.addEventListener("resize", paint);
    update();
    return { at, settings, rows, python: asPython, correction: () => model.correction };
  }

  return { fit, intervalsAt, normalQuantile, studentQuantile, start };
})();

window.addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("explore");
  if (root) window.exploreApp = explore.start(root);
});
