// Colours, fonts and marks of charts, in reports and on the server's pages.

// Font names are in single quotes, because saved files contain them in attributes with double quotes.
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif";
const textStyle = (colour, size = 13) => ({ color: colour, fontFamily: FONT, fontSize: size });

// The colours that the page uses at the moment.
const colours = () => {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["ink", "quiet", "rule", "card", "band", "good", "warn", "bad", "one", "two"];
  return Object.fromEntries(names.map((name) => [name, of(name)]));
};

const valueAxis = (theme, kind, more) => ({
  type: "value",
  axisLine: { show: false },
  axisTick: { show: false },
  splitLine: { lineStyle: { color: theme.rule }, showMinLine: false, showMaxLine: false },
  axisLabel: { ...textStyle(theme.quiet, 12), hideOverlap: true, formatter: (value) => kind.format(value) },
  ...more,
});

const tooltip = (theme, more) => ({
  confine: true,
  className: "tip",
  transitionDuration: 0,
  backgroundColor: theme.card,
  borderColor: theme.rule,
  padding: [8, 12],
  textStyle: textStyle(theme.ink),
  extraCssText: "box-shadow:0 4px 18px rgba(0,0,0,.14);border-radius:8px;",
  ...more,
});

// Draws the mark of a value. Its shape distinguishes contenders without colours. A hollow mark means "not
// distinguishable from noise".
const mark = (shape, x, y, colour, filled, card) => {
  const style = { fill: filled ? colour : card, stroke: colour, lineWidth: 2 };
  const r = 6;
  const polygon = (points) => ({
    type: "polygon",
    shape: { points: points.map(([dx, dy]) => [x + dx, y + dy]) },
    style,
  });
  switch (shape) {
    case "rect":
      return { type: "rect", shape: { x: x - r + 0.5, y: y - r + 0.5, width: 2 * r - 1, height: 2 * r - 1 }, style };
    case "triangle":
      return polygon([
        [0, -r - 1],
        [r + 1, r - 1],
        [-r - 1, r - 1],
      ]);
    case "diamond":
      return polygon([
        [0, -r - 1.5],
        [r + 1.5, 0],
        [0, r + 1.5],
        [-r - 1.5, 0],
      ]);
    case "roundRect":
      return { type: "rect", shape: { x: x - r, y: y - r + 2, width: 2 * r, height: 2 * r - 4, r: 3 }, style };
    case "pin":
      return polygon([
        [0, r + 1.5],
        [r + 1, -r + 1],
        [-r - 1, -r + 1],
      ]);
    case "arrow":
      return polygon([
        [r + 1.5, 0],
        [-r + 1, r + 1],
        [-r + 1, -r - 1],
      ]);
    default:
      return { type: "circle", shape: { cx: x, cy: y, r }, style };
  }
};

// Escapes labels before ECharts inserts them as HTML, because users choose the labels.
const escaped = (text) => String(text).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
