// A chart of estimates with their intervals: one line with a dot and whiskers for each name.

// Wraps a label between its parts. Labels are never cut, because labels with different features differ only at the end.
const wrapped = (label, letters) => {
  const lines = [""];
  const parts = label.split(/(?<=[.\-_+ ])/).flatMap((part) => part.match(new RegExp(`.{1,${letters}}`, "gu")) || []);
  for (const part of parts) {
    const last = lines.length - 1;
    if (lines[last] && (lines[last] + part).trimEnd().length > letters) lines.push(part);
    else lines[last] += part;
  }
  return lines.map((line) => line.trimEnd()).join("\n");
};

// Shortens a label in the middle, because labels with different features differ only at the end.
const shortened = (label, letters) => {
  const all = [...label];
  if (all.length <= letters) return label;
  const begin = Math.floor((letters - 1) / 3);
  return [...all.slice(0, begin), "…", ...all.slice(all.length - (letters - 1 - begin))].join("");
};

// The steps of an axis in bytes: 1, 2 or 5 times a power of ten, in a unit such as KiB or MiB.
const byteSteps = (most) => {
  const unit = bytesUnit(most).by;
  const rough = most / unit / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const interval = unit * power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  return { min: 0, interval, max: Math.ceil(most / interval) * interval };
};

// Draws one line: { label, name, colour, mark, one: { estimate, low, high, distinguishable }, row, shift }.
const whisker = (line, kind, theme, sign) => ({
  type: "custom",
  name: line.name || line.label,
  color: line.colour,
  data: [[line.one.estimate, line.row, line.one.low ?? line.one.estimate, line.one.high ?? line.one.estimate]],
  encode: { x: [0, 2, 3], y: 1 },
  clip: true,
  renderItem: (_, api) => {
    const shift = line.shift || 0;
    const at = (index) => api.coord([api.value(index), api.value(1)]);
    const [x, y] = [at(0)[0], at(0)[1] + shift];
    const [low, high] = [at(2)[0], at(3)[0]];
    const style = { stroke: line.colour, lineWidth: 2, fill: "none" };
    const stroke = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style });
    const ends =
      high > low ? [stroke(low, y, high, y), stroke(low, y - 5, low, y + 5), stroke(high, y - 5, high, y + 5)] : [];
    return {
      type: "group",
      children: [...ends, mark(line.mark, x, y, line.colour, line.one.distinguishable !== false, theme.card)],
    };
  },
  tooltip: { formatter: () => `<b>${escaped(line.name || line.label)}</b><br>${escaped(lineInWords(line, kind, sign))}` },
});

const lineInWords = (line, kind, sign) =>
  withInterval(line.one, kind, sign) + (line.one.distinguishable === false ? ", not distinguishable from noise" : "");

// If a chart has more rows than this, each name is limited to one line.
const CROWDED = 16;

// Draws the whole chart. `floor` is the half-width of the noise band. `rows` are the names from top to bottom.
const whiskers = ({ lines, rows, floor, kind, sign, theme, width, axisName }) => {
  const narrow = width < 560;
  const crowded = rows.length > CROWDED;
  const letters = narrow ? 15 : 26;
  const names = rows.map((row) => (crowded ? shortened(row, narrow ? 15 : 34) : wrapped(row, letters)));
  const values = rows.map((_, index) => {
    const of = lines.filter((line) => line.row === index && !line.silent);
    if (!of.length) return "";
    return of
      .map((line) => {
        const value = sign ? signed(line.one.estimate, kind) : kind.format(line.one.estimate);
        const doubt = line.one.distinguishable === false;
        if (narrow) return `{${doubt ? "quiet" : "value"}|${doubt ? "~" : ""}${value}}`;
        const range = interval(line.one.low, line.one.high, kind.unit(line.one.estimate));
        return `{${doubt ? "quiet" : "value"}|${doubt ? "~" : ""}${value}} {quiet|${range}}`;
      })
      .join("\n");
  });
  const series = lines.map((line) => whisker(line, kind, theme, sign));
  if (floor && series.length) {
    series[0].markArea = {
      silent: true,
      itemStyle: { color: theme.band },
      data: [[{ xAxis: -floor }, { xAxis: floor }]],
    };
  }
  if (series.length) {
    series[0].markLine = {
      silent: true,
      symbol: "none",
      animation: false,
      label: { show: false },
      lineStyle: { color: theme.quiet, type: "solid", width: 1 },
      data: [{ xAxis: 0 }],
    };
  }
  const all = lines
    .flatMap((line) => [line.one.estimate, line.one.low, line.one.high])
    .filter((value) => typeof value === "number");
  const least = Math.min(0, ...all, floor ? -floor : 0);
  const most = Math.max(...all, floor || 0);
  const room = (most - least) * 0.03;
  const category = {
    type: "category",
    inverse: true,
    data: rows.map((_, index) => index),
    axisLine: { show: false },
    axisTick: { show: false },
  };
  return {
    grid: {
      left: 4,
      right: 4,
      top: 4,
      bottom: axisName ? 26 : 4,
      containLabel: true,
      outerBoundsMode: "same",
      outerBoundsContain: "axisLabel",
    },
    tooltip: tooltip(theme, { trigger: "item" }),
    xAxis: valueAxis(theme, kind, {
      min: least < 0 ? least - room : 0,
      max: most + room,
      splitNumber: narrow ? 3 : 6,
      axisLabel: {
        ...textStyle(theme.quiet, 12),
        hideOverlap: true,
        showMinLabel: false,
        showMaxLabel: false,
        formatter: (value) => kind.format(value),
      },
      name: axisName,
      nameLocation: "middle",
      nameGap: 28,
      nameTextStyle: textStyle(theme.quiet, 12),
    }),
    yAxis: [
      {
        ...category,
        axisLabel: {
          ...textStyle(theme.ink, crowded ? 12.5 : 14),
          interval: 0,
          margin: 12,
          lineHeight: 17,
          formatter: (value) => names[Number(value)],
        },
      },
      {
        ...category,
        position: "right",
        axisLabel: {
          interval: 0,
          margin: 12,
          align: "left",
          formatter: (value) => values[Number(value)],
          rich: { value: { ...textStyle(theme.ink, 14), fontWeight: 600 }, quiet: textStyle(theme.quiet, 12.5) },
        },
      },
    ],
    series,
  };
};
