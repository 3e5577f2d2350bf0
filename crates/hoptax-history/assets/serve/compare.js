// The form for choosing two runs and their gateways. When the user chooses a run, the form offers that run's gateways.

const compare = () => {
  const form = byId("choose-runs");
  const { a, b, label_a: labelA, label_b: labelB } = form.elements;
  const swap = (one, other) => {
    [one.value, other.value] = [other.value, one.value];
  };
  byId("swap").addEventListener("click", () => {
    // If only one run is chosen, only its two gateways are swapped.
    if (b.value) swap(a, b);
    swap(labelA, labelB);
    if (a.value) form.requestSubmit();
  });
  let last = 0;
  const follow = async () => {
    const mine = ++last;
    for (const [run, label] of [
      [a.value, labelA],
      [b.value || a.value, labelB],
    ]) {
      const known = label.value;
      const found = run && (await fetch(`/api/v1/runs/${encodeURIComponent(run)}`));
      const contenders = found && found.ok ? (await found.json()).contenders : [];
      // Stop if the user has chosen another run meanwhile.
      if (mine !== last) return;
      label.replaceChildren(label.options[0], ...contenders.map((one) => element("option", {}, one.label)));
      label.value = contenders.some((one) => one.label === known) ? known : "";
    }
    form.dataset.followed = Number(form.dataset.followed || 0) + 1;
  };
  a.addEventListener("change", follow);
  b.addEventListener("change", follow);
};
if (byId("choose-runs")) compare();
