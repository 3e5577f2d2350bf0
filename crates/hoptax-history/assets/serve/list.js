// The list of runs: search as you type, and selection of two runs to compare.

const list = () => {
  const form = byId("search");
  const chosen = new Map();

  const showChosen = () => {
    document.querySelectorAll("#runs input").forEach((box) => {
      box.checked = chosen.has(box.value);
    });
    byId("chosen").hidden = !chosen.size;
    byId("compare").disabled = chosen.size !== 2;
    byId("chosen-words").textContent =
      chosen.size === 2 ? "Two runs are selected." : chosen.size === 1 ? "Select one more run." : "Select only two runs.";
  };

  // Only the server draws rows. So the script requests the page again and takes the rows from it.
  const part = async (address) => {
    const text = await (await fetch(address)).text();
    return new DOMParser().parseFromString(text, "text/html");
  };
  let last = 0;
  const search = async () => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const address = `/${query.size ? `?${query}` : ""}`;
    const mine = ++last;
    const page = await part(address);
    const found = page.getElementById("found");
    // Ignore the answer if a later search has started, or if the answer is not a list.
    if (mine !== last || !found) return;
    byId("found").replaceWith(found);
    history.replaceState(null, "", address);
    showChosen();
    document.documentElement.dataset.searched = mine;
  };
  let waiting;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });

  const pick = byId("pick");
  pick.addEventListener("click", async (event) => {
    const more = event.target.closest("#more");
    if (!more) return;
    event.preventDefault();
    // Ignore a second click while the request is still running.
    if (more.ariaBusy) return;
    more.ariaBusy = "true";
    const mine = last;
    const page = await part(more.href).finally(() => {
      more.ariaBusy = null;
    });
    // Ignore the answer if a search has replaced the rows meanwhile.
    if (mine !== last) return;
    const [first] = page.querySelectorAll("#runs .run a");
    const known = first && first.getAttribute("href");
    byId("runs").append(...page.querySelectorAll("#runs .run"));
    const next = page.getElementById("more");
    if (next) more.href = next.href;
    else more.closest("p").remove();
    if (known)
      byId("runs")
        .querySelector(`a[href="${CSS.escape(known)}"]`)
        ?.focus();
    say(`${byId("runs").children.length} runs are shown.`);
  });
  pick.addEventListener("change", (event) => {
    const box = event.target;
    if (box.checked) chosen.set(box.value, Number(box.dataset.started));
    else chosen.delete(box.value);
    showChosen();
  });
  pick.addEventListener("submit", (event) => {
    event.preventDefault();
    // The run that started first is "before".
    const [a, b] = [...chosen].sort((one, other) => one[1] - other[1]).map(([id]) => id);
    location.href = `/compare?${new URLSearchParams({ a, b })}`;
  });
  byId("choose-none").addEventListener("click", () => {
    chosen.clear();
    showChosen();
  });
  showChosen();
};
if (byId("search")) list();
