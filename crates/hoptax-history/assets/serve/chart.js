// Functions that all charts of the server's pages use.

// A value axis with a grid line at each end. The axes of the report have no grid lines there.
const values = (theme, kind, more) =>
  valueAxis(theme, kind, { splitLine: { lineStyle: { color: theme.rule } }, ...more });

// Draws a chart, and draws it again when the width of its container or the colours of the page change. `option` returns
// ECharts' option. It also returns a `height` in pixels if the height depends on the content.
const chartIn = (figure, option) => {
  const canvas = figure.querySelector(".canvas");
  const chart = echarts.init(canvas, null, { renderer: "svg" });
  const draw = () => {
    const { height, ...drawn } = option(colours(), canvas.clientWidth);
    if (height) {
      canvas.style.height = `${height}px`;
      chart.resize();
    }
    chart.setOption({ animation: false, ...drawn }, true);
    figure.dataset.drawn = chart.getOption().series.length;
  };
  new ResizeObserver(() => {
    chart.resize();
    draw();
  }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  return { chart, draw, canvas };
};
