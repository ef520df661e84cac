// Tables and code that are wider than their box fade at the right edge until they are scrolled to the end.
document.addEventListener("DOMContentLoaded", () => {
  const boxes = document.querySelectorAll(".pst-scrollable-table-container, div.highlight, div.highlight pre");
  const mark = (box) => {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("continues", rest > 2 && getComputedStyle(box).overflowX !== "visible");
  };
  for (const box of boxes) box.addEventListener("scroll", () => mark(box), { passive: true });
  const markAll = () => boxes.forEach(mark);
  window.addEventListener("resize", markAll);
  window.addEventListener("load", markAll);
  markAll();
});
