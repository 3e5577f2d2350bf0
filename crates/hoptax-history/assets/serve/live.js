// Shows the run in progress. Requests its state once a second.

const live = () => {
  let state = jsonIn("live-data");
  let gone = 0;
  const seconds = (time) => {
    const whole = Math.max(0, Math.round(time));
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  };
  const orDash = (value, kind) => (value === null || value === undefined ? "–" : kind.format(value));

  const showProgress = () => {
    const { trials_done: done, trials_planned: planned, open_ended: open, stage } = state;
    byId("stage").textContent = stage;
    byId("doing").textContent = state.doing;
    byId("progress-words").textContent =
      `${done} of ${planned}${open ? " or more" : ""} ${state.starts ? "starts" : "trials"}${state.round ? `, round ${state.round}` : ""}`;
    const left = stage === "ended" ? "" : `, ${open ? "at least " : ""}${seconds(state.left_s)} left`;
    byId("time-left").textContent = `${seconds(state.elapsed_s)} elapsed${left}`;
    byId("progress").value = planned ? done / planned : 0;
    byId("done").hidden = stage !== "ended";
  };

  // Okabe and Ito's palette, as in the report. Direct is grey.
  const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442"];
  const shade = (who) => {
    const gateways = state.cases.map((one) => one.gateway).filter((one) => one !== "direct");
    const place = [...new Set(gateways)].indexOf(who);
    return place < 0 ? "#808080" : PALETTE[place % PALETTE.length];
  };
  const tile = (value, name) => element("div", { class: "tile" }, element("b", {}, value), element("span", {}, name));
  const showTrial = () => {
    const trial = state.trial;
    byId("trial-part").hidden = !trial;
    if (!trial) return;
    byId("trial-title").textContent = `Trial ${trial.number}: ${trial.gateway}`;
    const due = trial.due === null ? "" : `, ${kinds.rate.format(trial.due)} requests/s due`;
    const measured =
      trial.phase === "measuring" && !trial.by_round ? `, second ${Math.floor(trial.elapsed_s)} of ${number(trial.duration_s)}` : "";
    byId("trial-words").textContent = `${trial.load}${due} · ${trial.phase}${measured}`;
    const course = trial.by_round ? state.rounds.filter((one) => one.gateway === trial.gateway) : trial.seconds;
    const last = course[course.length - 1] || {};
    const of = trial.by_round ? ", its last trial" : "";
    const tiles = [
      tile(orDash(last.rate, kinds.rate), `responses per second${of}`),
      tile(orDash(last.p50_us, kinds.time), `p50${of}`),
      tile(orDash(last.p99_us, kinds.time), `p99${of}`),
      tile(orDash(last.failed, kinds.rate), `failures per second${of}`),
    ];
    const contenders = [...new Set(state.rounds.map((one) => one.gateway))];
    const key = contenders.flatMap((who) => [
      element("span", { class: "dot", style: `background:${shade(who)}` }),
      document.createTextNode(`${who} `),
    ]);
    document.querySelectorAll("#trial-part .by-second").forEach((one) => (one.hidden = trial.by_round));
    document.querySelectorAll("#trial-part .by-round").forEach((one) => {
      one.hidden = !trial.by_round;
      one.replaceChildren(document.createTextNode("by round: "), ...key.map((part) => part.cloneNode(true)));
    });
    if (state.steal !== null) tiles.push(tile(kinds.share.format(state.steal), "CPU time taken by the hypervisor"));
    byId("tiles").replaceChildren(...tiles);
  };

  const row = (head, ...cells) => element("tr", {}, element("th", { scope: "row", class: "words" }, head), ...cells);
  const cell = (text, kind) => element("td", kind ? { class: kind } : {}, text);
  const showTables = () => {
    byId("cpu").replaceChildren(
      ...state.cpu.map((one) => row(one.role, cell(one.cpus.toFixed(2)), cell(kinds.bytes.format(one.memory_bytes)))),
    );
    byId("cases").replaceChildren(
      ...state.cases.map((one) =>
        row(
          one.gateway,
          cell(one.load, "words"),
          cell(String(one.trials)),
          cell(orDash(one.rate, kinds.rate)),
          cell(orDash(one.p50_us, kinds.time)),
          cell(orDash(one.p99_us, kinds.time)),
          cell(one.added_p50_us === null ? "–" : signed(one.added_p50_us, kinds.time)),
          cell(one.added_p50_half_width_us === null ? "–" : `±${kinds.time.format(one.added_p50_half_width_us)}`),
        ),
      ),
    );
  };

  const showDoubts = () => {
    const severity = { void: "void", warning: "warnings", note: "note" };
    const findings = state.findings.map((one) =>
      element(
        "div",
        { class: `finding ${severity[one.severity] || "note"}` },
        element("p", {}, element("strong", {}, one.code), one.case ? ` ${one.case}` : ""),
        element("p", {}, one.message),
      ),
    );
    const failures = state.failures.map((one) =>
      element(
        "div",
        { class: "finding void" },
        element("p", {}, element("strong", {}, one.label)),
        element("p", {}, one.message),
      ),
    );
    const part = (title, all) =>
      all.length ? [element("h2", {}, title), element("section", { class: "card" }, ...all)] : [];
    byId("doubts").replaceChildren(...part("Failures", failures), ...part("Findings so far", findings));
  };

  const byRound = () => Boolean(state.trial) && state.trial.by_round;
  // One line for each contender, with the figures of its trials by round.
  const rounds = (of) =>
    [...new Set(state.rounds.map((one) => one.gateway))].map((who) => {
      const own = state.rounds.filter((one) => one.gateway === who);
      return {
        type: "line",
        name: who,
        color: shade(who),
        showSymbol: own.length < 3,
        symbolSize: 6,
        lineStyle: { width: 2, type: who === "direct" ? "dashed" : "solid", color: shade(who) },
        data: own.map((one) => [one.round, of(one)]),
      };
    });
  const axis = (theme) => ({
    type: "value",
    min: (extent) => (byRound() ? extent.min : 0),
    max: (extent) => (byRound() ? extent.max : Math.max(extent.max, state.trial ? state.trial.duration_s : 1)),
    minInterval: 1,
    axisLine: { show: false },
    axisTick: { show: false },
    splitLine: { show: false },
    axisLabel: { ...textStyle(theme.quiet, 12), hideOverlap: true, formatter: (value) => (byRound() ? value : `${value} s`) },
  });
  const line = (name, colour, type, of) => ({
    type: "line",
    name,
    color: colour,
    // A line needs two points, so a single second is drawn as a dot.
    showSymbol: Boolean(state.trial) && state.trial.seconds.length === 1,
    symbolSize: 6,
    lineStyle: { width: 2, type, color: colour },
    data: (state.trial ? state.trial.seconds : []).map((second, at) => [at + 1, of(second)]),
  });
  const overTime = (kind, lines, of, more) => (theme) => ({
    grid: { left: 4, right: 16, top: 12, bottom: 4, containLabel: true },
    tooltip: tooltip(theme, {
      trigger: "axis",
      formatter: (points) =>
        [
          `<b>${byRound() ? "round" : "second"} ${points[0].value[0]}</b>`,
          ...points.map((point) => `${escaped(point.seriesName)} <b>${orDash(point.value[1], kind)}</b>`),
        ].join("<br>"),
    }),
    xAxis: axis(theme),
    yAxis: values(theme, kind, more),
    series: byRound() ? rounds(of) : lines(theme),
  });
  const charts = [
    chartIn(
      byId("live-rate"),
      overTime(
        kinds.rate,
        (theme) => [
          line("responses", theme.one, "solid", (one) => one.rate),
          line("failures", theme.bad, [3, 3], (one) => one.failed),
        ],
        (one) => one.rate,
        { min: 0, splitNumber: 4 },
      ),
    ),
    chartIn(
      byId("live-latency"),
      overTime(
        kinds.time,
        (theme) => [
          line("p50", theme.one, "solid", (one) => one.p50_us),
          line("p99", theme.two, [6, 3], (one) => one.p99_us),
        ],
        (one) => one.p50_us,
        { type: "log" },
      ),
    ),
  ];

  const show = () => {
    showProgress();
    showTrial();
    showTables();
    showDoubts();
    if (state.trial) charts.forEach((one) => one.draw());
  };
  const lose = () => {
    gone += 1;
    byId("lost").hidden = gone < 3;
    byId("lost").textContent =
      "The run's process no longer answers: it has ended. `hoptax serve` shows its report.";
  };
  let shown = 0;
  const ask = async () => {
    try {
      const answer = await fetch("/api/v1/live");
      if (!answer.ok) throw new Error("no run");
      const before = state.stage;
      state = await answer.json();
      gone = 0;
      byId("lost").hidden = true;
      show();
      if (before !== state.stage && state.stage === "ended") say("The run has ended.");
    } catch {
      lose();
    }
    document.documentElement.dataset.shown = ++shown;
    if (state.stage !== "ended") setTimeout(ask, 1000);
  };
  show();
  setTimeout(ask, 1000);
};
if (byId("live-data")) live();
document.documentElement.dataset.ready = "1";
