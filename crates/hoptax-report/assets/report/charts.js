// Each chart is a function of the state. It returns { option, table, series }, or null if there is nothing to draw.
// `table` contains the same values as text: { head, rows }.

const PERCENTILES = ["p50", "p90", "p95", "p99", "p99.9"];
// The measure of the answer is the first.
const TAXES = {
  [page.measures[0].metric]: { ...page.measures[0], kind: kinds.time },
  added_p50: { name: "p50", axis: "added response time at the median", kind: kinds.time },
  added_p90: { name: "p90", axis: "added response time at the 90th percentile", kind: kinds.time },
  added_p95: { name: "p95", axis: "added response time at the 95th percentile", kind: kinds.time },
  added_p99: { name: "p99", axis: "added response time at the 99th percentile", kind: kinds.time },
  cpu_us_per_request: { name: "CPU", axis: "CPU time of the gateway per request", kind: kinds.time },
  throughput_ratio: { name: "throughput", axis: "throughput against direct", kind: kinds.share },
};
const PRICES = {
  added_p50: { name: "p50", axis: "added at the median", kind: kinds.time },
  added_p99: { name: "p99", axis: "added at the 99th percentile", kind: kinds.time },
  cpu_us_per_request: { name: "CPU", axis: "added CPU time per request", kind: kinds.time },
  throughput_ratio: { name: "throughput", axis: "change of throughput", kind: kinds.share },
  memory_rss_bytes: { name: "memory", axis: "added memory", kind: kinds.bytes },
};

const capital = (text) => text[0].toUpperCase() + text.slice(1);

// Shows a throughput ratio as a change, because −12 % is easier to read than 88 %.
const lessOne = (one) => ({
  ...one,
  estimate: one.estimate - 1,
  low: one.low === null ? null : one.low - 1,
  high: one.high === null ? null : one.high - 1,
});
const asChange = (metric, one) => (metric === "throughput_ratio" ? lessOne(one) : one);

const figureCells = (one, kind, sign) => [
  sign ? signed(one.estimate, kind) : kind.format(one.estimate),
  interval(one.low, one.high, kind.unit(one.estimate)),
];

// In a chart with many rows, the rows are closer together, so that a laptop screen shows many gateways at once.
const rowHeight = (rows) => (rows > CROWDED ? 24 : rows > 10 ? 32 : 46);

const addedChart = (metric, { kind, axis }, theme, width) => {
  const sign = metric !== "cpu_us_per_request";
  const found = shownAt(state.load)
    .filter((one) => one.tax && one.tax[metric])
    .map((one) => ({ who: one.gateway, one: asChange(metric, one.tax[metric]) }))
    .sort((a, b) =>
      metric === "throughput_ratio" ? b.one.estimate - a.one.estimate : a.one.estimate - b.one.estimate,
    );
  if (!found.length) return null;
  const floor = loadOf(state.load).noise_floor[metric];
  const lines = found.map(({ who, one }, row) => ({ label: gateways[who].label, one, row, ...styleOf(who) }));
  return {
    option: whiskers({ lines, rows: lines.map((line) => line.label), floor, kind, sign, theme, width }),
    height: rowHeight(lines.length) * lines.length + 34,
    note: `${capital(axis)} · ${loadOf(state.load).label}` + (floor ? ` · noise floor ±${kind.format(floor)}` : ""),
    table: changesTable(["gateway", axis], lines, kind, sign),
    series: lines.length,
  };
};

const taxChart = (theme, width) => addedChart(state.percentile, TAXES[state.percentile], theme, width);

const messageChart = (theme, width) => {
  const [, { metric, axis }] = page.measures;
  return addedChart(metric, { axis, kind: kinds.time }, theme, width);
};

// The table below a chart of changes. It has a row for each line of the chart.
const changesTable = (head, lines, kind, sign) => ({
  head: [...head, "95 % interval", "distinguishable"],
  rows: lines.map((line) => [
    line.label,
    ...figureCells(line.one, kind, sign),
    line.one.distinguishable ? "yes" : "no",
  ]),
});

// The versions of a gateway, in the plan's order from top to bottom.
const versionChart = (index) => (theme, width) => {
  const metric = state.percentile;
  const { kind, axis } = TAXES[metric];
  const sign = metric !== "cpu_us_per_request";
  const family = page.versions[index];
  if (family.load !== state.load) return null;
  const taxOf = (who) => caseOf(who, family.load)?.tax?.[metric];
  const lines = family.versions
    .filter(({ gateway }) => isShown(gateway) && taxOf(gateway))
    .map(({ gateway, name }, row) => ({ label: name, one: asChange(metric, taxOf(gateway)), row, ...styleOf(gateway) }));
  if (!lines.length) return null;
  const floor = loadOf(family.load).noise_floor[metric];
  return {
    option: whiskers({ lines, rows: lines.map((line) => line.label), floor, kind, sign, theme, width }),
    height: rowHeight(lines.length) * lines.length + 34,
    note: capital(axis),
    table: changesTable(["version", axis], lines, kind, sign),
    series: lines.length,
  };
};

const priceChart = (index) => (theme, width) => {
  const metric = state.price;
  const { kind, axis } = PRICES[metric];
  const group = priceGroups()[index];
  if (group.load !== state.load) return null;
  const found = group.prices.filter((price) => isShown(price.gateway) && price[metric]);
  if (!found.length) return null;
  const lines = found
    .map((price) => ({ label: price.features, one: asChange(metric, price[metric]), ...styleOf(price.gateway) }))
    .sort((a, b) => a.one.estimate - b.one.estimate)
    .map((line, row) => ({ ...line, row }));
  const floors = { added_p50: 1, added_p99: 1, throughput_ratio: 1 };
  const floor = floors[metric] && loadOf(group.load) ? loadOf(group.load).noise_floor[metric] : null;
  return {
    option: whiskers({ lines, rows: lines.map((line) => line.label), floor, kind, sign: true, theme, width }),
    height: (width < 560 ? 44 : 34) * lines.length + 34,
    note: capital(axis),
    table: changesTable(["feature", axis], lines, kind, true),
    series: lines.length,
  };
};

const priceGroups = () => {
  const groups = [];
  for (const price of page.prices) {
    const same = groups.find((group) => group.bare === price.bare && group.load === price.load);
    if (same) same.prices.push(price);
    else groups.push({ bare: price.bare, load: price.load, prices: [price] });
  }
  return groups;
};

const pathChart = (theme, width) => {
  const ways = [
    ["added_request_us_p50", "request path", -8],
    ["added_response_us_p50", "response path", 8],
  ];
  const found = shownAt(state.load).filter((one) => one.path && ways.some(([member]) => one.path[member]));
  if (!found.length) return null;
  const lines = found.flatMap((one, row) =>
    ways
      .filter(([member]) => one.path[member])
      .map(([member, way, shift]) => ({
        label: gateways[one.gateway].label,
        name: `${gateways[one.gateway].label}, ${way}`,
        one: one.path[member],
        row,
        shift,
        ...styleOf(one.gateway),
        mark: member === "added_request_us_p50" ? "arrow" : "circle",
      })),
  );
  return {
    option: whiskers({
      lines,
      rows: found.map((one) => gateways[one.gateway].label),
      kind: kinds.time,
      sign: true,
      theme,
      width,
    }),
    height: 60 * found.length + 34,
    note: `Arrow: request path. Dot: response path. ${loadOf(state.load).label}`,
    table: {
      head: ["gateway", "added at the median", "95 % interval", "distinguishable"],
      rows: lines.map((line) => [
        line.name,
        ...figureCells(line.one, kinds.time, true),
        line.one.distinguishable ? "yes" : "no",
      ]),
    },
    series: lines.length,
  };
};

// A chart of horizontal bars, for CPU time and memory. Each of `parts` is { name, of(case), strength }.
const bars = ({ theme, width, parts, kind, stack, found, note }) => {
  if (!found.length) return null;
  const names = found.map((one) => wrapped(gateways[one.gateway].label, width < 560 ? 15 : 26));
  const series = parts.map(({ name, of, strength }) => ({
    type: "bar",
    name,
    stack: stack ? "all" : undefined,
    barMaxWidth: stack ? 22 : 12,
    barGap: "20%",
    data: found.map((one) => ({
      value: of(one) ?? null,
      itemStyle: {
        color: styleOf(one.gateway).colour,
        opacity: strength,
        borderColor: styleOf(one.gateway).colour,
        borderWidth: 1,
      },
    })),
  }));
  const lines = (place) => parts.map((part) => `${part.name}: ${of(part, found[place])}`).join("<br>");
  const of = (part, one) => (part.of(one) === null || part.of(one) === undefined ? "–" : kind.format(part.of(one)));
  return {
    option: {
      grid: { left: 4, right: 24, top: 4, bottom: 4, containLabel: true },
      tooltip: tooltip(theme, {
        trigger: "axis",
        axisPointer: { type: "shadow", shadowStyle: { color: theme.band } },
        formatter: ([first]) =>
          `<b>${escaped(gateways[found[first.dataIndex].gateway].label)}</b><br>${lines(first.dataIndex)}`,
      }),
      xAxis: valueAxis(theme, kind, {
        splitNumber: width < 560 ? 3 : 6,
        ...(kind === kinds.bytes
          ? byteSteps(Math.max(...found.flatMap((one) => parts.map((part) => part.of(one) || 0))))
          : {}),
      }),
      yAxis: {
        type: "category",
        inverse: true,
        data: found.map((_, place) => place),
        axisLine: { show: false },
        axisTick: { show: false },
        axisLabel: {
          ...textStyle(theme.ink, 14),
          interval: 0,
          margin: 12,
          lineHeight: 17,
          formatter: (value) => names[Number(value)],
        },
      },
      series,
    },
    height: (stack ? 40 : 44) * found.length + 34,
    note,
    table: {
      head: ["gateway", ...parts.map((part) => part.name)],
      rows: found.map((one) => [gateways[one.gateway].label, ...parts.map((part) => of(part, one))]),
    },
    series: parts.length,
  };
};

const cpuChart = (theme, width) => {
  const part = (name, strength) => ({ name, strength, of: (one) => one.cpu[`${name}_us_per_request`] });
  const parts = [part("gateway", 1), part("upstream", 0.5), part("generator", 0.2)];
  const found = shownAt(state.load).filter((one) => one.cpu && parts.some((part) => part.of(one) !== null));
  const note = `Strong: the gateway. Lighter: the upstream. Faint: the generator. ${loadOf(state.load)?.label ?? ""}`;
  return bars({ theme, width, parts, kind: kinds.time, stack: true, found, note });
};

const memoryChart = (theme, width) => {
  const parts = [
    { name: "resident (RSS)", strength: 1, of: (one) => one.memory.gateway_rss_bytes_max },
    { name: "proportional (PSS)", strength: 0.4, of: (one) => one.memory.gateway_pss_bytes_max },
  ];
  const found = shownAt(state.load).filter((one) => one.memory && parts.some((part) => part.of(one)));
  const note = `Strong: resident. Lighter: proportional, where shared pages count once. ${loadOf(state.load)?.label ?? ""}`;
  return bars({ theme, width, parts, kind: kinds.bytes, stack: false, found, note });
};
