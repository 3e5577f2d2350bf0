// Reads the chart of a comparison from the page, independently of the script that draws it: labels of the axis, names,
// marks, intervals, arrows, and rows with text instead of a mark.
(() => {
  const svg = document.querySelector("#changes svg");
  const all = svg.getBoundingClientRect();
  const placed = (one) => {
    const at = one.getBoundingClientRect();
    return { one, x: at.x + at.width / 2 - all.x, y: at.y + at.height / 2 - all.y, width: at.width };
  };
  const texts = [...svg.querySelectorAll("text")].map((one) => ({ ...placed(one), text: one.textContent }));
  const shapes = [...svg.querySelectorAll("path, circle")].map((one) => ({
    ...placed(one),
    d: one.getAttribute("d") || "",
    fill: one.getAttribute("fill"),
    stroke: one.getAttribute("stroke"),
  }));
  const thick = shapes.filter(({ one }) => one.getAttribute("stroke-width") === "2");
  const corners = ({ d }) => (d.endsWith("Z") ? d.split("L").length : 0);
  const isRound = ({ one, d }) => one.tagName === "circle" || d.includes("A");
  const share = (text) => Number(text.replace("−", "-").replace(/[+,%\s]/g, "")) / 100;
  const isName = ({ one }) => one.style.fontSize === "14px" && one.getAttribute("text-anchor") === "start";
  const line = /^M([\d.]+) ([\d.]+)L([\d.]+) \2$/;
  return {
    axis: texts.filter(({ y, text }) => y < 24 && text.endsWith("%")).map(({ x, text }) => [share(text), x]),
    names: texts.filter(isName).map(({ one, text, y }) => ({ text, y, bold: one.style.fontWeight === "700" })),
    marks: thick
      .filter((one) => isRound(one) || corners(one) === 4)
      .map((one) => ({ x: one.x, y: one.y, round: isRound(one), fill: one.fill, stroke: one.stroke })),
    lines: thick.filter(({ d }) => line.test(d)).map(({ d }) => line.exec(d).slice(1).map(Number)),
    arrows: shapes.filter((one) => corners(one) === 3).map(({ x, y }) => ({ x, y })),
    untold: texts.filter(({ text }) => text.endsWith("no percentage")).map(({ y }) => y),
    height: svg.clientHeight,
  };
})()
