// What charts look like, in a report and on the server's pages.

// Single quotes: the name stands in attributes of saved files.
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif";
const textStyle = (colour, size = 13) => ({ color: colour, fontFamily: FONT, fontSize: size });

// The page's own colours, as they are just now.
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
  axisLabel: { ...textStyle(theme.quiet, 12), hideOverlap: true, formatter: (value) => kind.told(value) },
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

// What ECharts takes as HTML is escaped here: labels are somebody's input.
const escaped = (text) => String(text).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
