// Chart of a trend: a line for the estimates, a band for the intervals, marks for the verdicts, a dashed line wherever
// something changed between two runs, and a thick line with a label wherever the level changed.

const KINDS = { us: kinds.time, "requests/s": kinds.rate, bytes: kinds.bytes, ratio: kinds.share, share: kinds.share };
const MARKS = { believable: ["circle", "good"], warnings: ["triangle", "warn"], void: ["diamond", "bad"] };
const SIGNS = { at_least: "≥ ", at_most: "≤ " };
const day = (ms) => new Date(ms).toISOString().slice(0, 10);
const minute = (ms) => `${new Date(ms).toISOString().slice(0, 16).replace("T", " ")} UTC`;

// A band between the ends of the intervals. A point without an interval interrupts the band.
const bandOf = (points, colour) => ({
  type: "custom",
  name: "95 % interval",
  silent: true,
  z: 1,
  clip: true,
  tooltip: { show: false },
  data: points.map((point) => [point.at, ...(point.interval || [point.estimate, point.estimate])]),
  encode: { x: 0, y: [1, 2] },
  renderItem: ({ dataIndex }, api) => {
    // The first call draws the band for all points.
    if (dataIndex) return null;
    const parts = [[]];
    for (const point of points) {
      if (point.interval) parts[parts.length - 1].push(point);
      else parts.push([]);
    }
    const place = (point, end) => api.coord([point.at, point.interval[end]]);
    const shape = (part) =>
      part.length > 1
        ? {
            type: "polygon",
            shape: { points: [...part.map((one) => place(one, 1)), ...part.map((one) => place(one, 0)).reverse()] },
            style: { fill: colour },
          }
        : {
            type: "line",
            shape: {
              x1: place(part[0], 0)[0],
              y1: place(part[0], 0)[1],
              x2: place(part[0], 1)[0],
              y2: place(part[0], 1)[1],
            },
            style: { stroke: colour, lineWidth: 8 },
          };
    return { type: "group", children: parts.filter((part) => part.length).map(shape) };
  },
});

// Labels are left of their lines: those of settings at the top, those of levels at the bottom.
const changesOf = (points, theme, width) => {
  const line = (point, text, colour, position) => ({
    xAxis: point.at,
    label: {
      ...textStyle(colour, 11),
      show: width > 560,
      formatter: text,
      position,
      rotate: 0,
      align: "right",
      padding: [0, 4, 0, 0],
    },
  });
  const settings = points
    .filter((point) => point.changed.length)
    .map((point) => line(point, point.changed.join("\n"), theme.quiet, "insideEndTop"));
  const levels = points
    .filter((point) => point.change)
    .map((point) => {
      const colour = point.change.worse ? theme.bad : theme.good;
      const mark = line(point, point.change.words.replace(", ", "\n"), colour, "insideStartTop");
      return { ...mark, lineStyle: { color: colour, type: "solid", width: 3 } };
    });
  return {
    silent: true,
    symbol: "none",
    lineStyle: { color: theme.quiet, type: "dashed", width: 1 },
    data: [...settings, ...levels],
  };
};

const trend = () => {
  const form = byId("trend-choice");
  form.addEventListener("change", () => form.requestSubmit());
  const { metric, unit, points: all, changes, change_words: words } = jsonIn("trend-data");
  const changeAt = new Map(changes.map((change, index) => [change.after, { ...change, words: words[index] }]));
  const points = all.map((point) => ({ ...point, at: point.started_unix * 1000, change: changeAt.get(point.id) }));
  const kind = KINDS[unit] || { unit: () => ({ by: 1, name: "" }), format: number };
  const range = (point) => (point.interval ? interval(...point.interval, kind.unit(point.estimate)) : "no interval");
  const inWords = (point) =>
    [
      minute(point.at),
      `${SIGNS[point.bound] || ""}${kind.format(point.estimate)} (${range(point)})`,
      [point.version, point.verdict].filter(Boolean).join(", "),
      ...point.changed.map((change) => `changed: ${change}`),
      point.change && `new level: ${point.change.words}`,
    ].filter(Boolean);

  const option = (theme, width) => ({
    grid: { left: 4, right: 24, top: 24, bottom: 4, containLabel: true },
    tooltip: tooltip(theme, {
      trigger: "item",
      formatter: ({ dataIndex }) => {
        const [first, figure, ...rest] = inWords(points[dataIndex]).map(escaped);
        return [first, `<b>${figure}</b>`, ...rest].join("<br>");
      },
    }),
    xAxis: {
      type: "time",
      axisLine: { lineStyle: { color: theme.rule } },
      axisTick: { show: false },
      splitLine: { show: false },
      axisLabel: { ...textStyle(theme.quiet, 12), hideOverlap: true },
    },
    yAxis: values(theme, kind, { scale: true }),
    series: [
      bandOf(points, theme.band),
      {
        type: "line",
        name: metric,
        z: 3,
        cursor: "pointer",
        lineStyle: { color: theme.quiet, width: 1.5 },
        emphasis: { scale: 1.6 },
        data: points.map((point) => {
          const [symbol, colour] = MARKS[point.verdict] || ["circle", "quiet"];
          return { value: [point.at, point.estimate], symbol, symbolSize: 11, itemStyle: { color: theme[colour] } };
        }),
        markLine: changesOf(points, theme, width),
      },
    ],
  });
  const figure = byId("trend");
  const { chart, canvas } = chartIn(figure, option);
  figure.dataset.points = points.length;
  figure.dataset.changes = changes.length;
  const open = (point) => {
    location.href = `/runs/${encodeURIComponent(point.id)}`;
  };
  chart.on(
    "click",
    (event) => event.dataIndex !== undefined && points[event.dataIndex] && open(points[event.dataIndex]),
  );

  // Keyboard: arrows move between points, Enter opens the run.
  const live = figure.querySelector("[aria-live]");
  let at = -1;
  canvas.setAttribute(
    "aria-label",
    `${metric} over ${points.length} runs. Use the arrow keys to move between runs, and Enter to open one.`,
  );
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1 };
    if (event.key === "Enter" && points[at]) return open(points[at]);
    if (!(event.key in moves) || !points.length) return undefined;
    at = Math.min(points.length - 1, Math.max(0, at + moves[event.key]));
    event.preventDefault();
    chart.dispatchAction({ type: "showTip", seriesIndex: 1, dataIndex: at });
    live.textContent = inWords(points[at]).join(", ");
    return undefined;
  });

  // Puts an apostrophe in front of a cell that a spreadsheet would take for a formula.
  const cell = (value) => {
    const text = String(value ?? "");
    const safe = /^[=@\t\r]|^[+-](?![\d.])/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  byId("copy-csv").addEventListener("click", async (event) => {
    const head = ["run", "started", metric, "low", "high", "unit", "verdict", "version", "changed", "bound", "change"];
    const rows = points.map((point) => [
      point.id,
      new Date(point.at).toISOString(),
      point.estimate,
      ...(point.interval || ["", ""]),
      unit,
      point.verdict,
      point.version,
      point.changed.join("; "),
      point.bound,
      point.change?.words,
    ]);
    const text = `${[head, ...rows].map((row) => row.map(cell).join(",")).join("\n")}\n`;
    try {
      await navigator.clipboard.writeText(text);
      event.target.textContent = "Copied";
    } catch {
      event.target.textContent = "Not allowed by the browser";
    }
    setTimeout(() => {
      event.target.textContent = "Copy CSV";
    }, 1500);
  });
};
if (byId("trend-data")) trend();
