// A run's page: saves tags and note, and deletes the run after confirmation.

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
  // The event "close" would fire too late: by then, `returnValue` may already belong to the next dialog.
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
// A server that only shows runs has no form.
if (byId("annotate")) run();
