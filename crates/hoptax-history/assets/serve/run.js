// A run: tags and note are written, and the run is deleted after a question.

const run = () => {
  const path = `/api/v1/runs/${byId("run").dataset.address}`;
  const form = byId("annotate");
  const outcome = byId("outcome");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const tags = form.elements.tags.value.split(/[\s,]+/).filter(Boolean);
    try {
      const run = await send("PATCH", path, { tags, note: form.elements.note.value });
      form.elements.tags.value = run.tags.join(", ");
      outcome.className = "believable";
      outcome.textContent = "Saved.";
    } catch (error) {
      outcome.className = "void";
      outcome.textContent = error.message;
    }
  });
  form.addEventListener("input", () => {
    outcome.textContent = "";
  });

  const sure = byId("sure");
  byId("delete").addEventListener("click", () => sure.showModal());
  // Not "close": it comes later, and tells what was answered last, which may be the next question's answer by then.
  sure.querySelector("form").addEventListener("submit", async (event) => {
    if (event.submitter.value !== "yes") return;
    try {
      await send("DELETE", path);
      location.href = "/";
    } catch (error) {
      outcome.className = "void";
      outcome.textContent = error.message;
    }
  });
};
if (byId("run")) run();
