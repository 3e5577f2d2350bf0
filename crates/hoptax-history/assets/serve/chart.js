// Shared by the charts of the server's pages.

// Unlike the report's axes, these have a line at both ends.
const values = (theme, kind, more) =>
  valueAxis(theme, kind, { splitLine: { lineStyle: { color: theme.rule } }, ...more });

// A chart that follows the width of its container and the colours of the page. `option` returns ECharts' option, with
// a `height` in pixels if the height depends on the content.
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
