// The palette (Ctrl+K) and the keys of every page: "/" goes to the search field, "g" and a letter to a section.
window.mainstemPalette = (() => {
  const SHOWN_MAX = 50;
  const PREFIX_MS = 1500; // how long a "g" waits for its letter
  let targets = [];
  let dialog = null;
  let prefixed = 0;

  const sections = () =>
    [...document.querySelectorAll("nav.sections a")].map((a) => {
      const words = [...a.querySelectorAll(":scope > :not(.q-icon)")].map((each) => each.textContent.trim());
      return ["Page", words.join(" "), a.getAttribute("href")];
    });

  function build() {
    dialog = document.body.appendChild(document.createElement("dialog"));
    dialog.className = "palette";
    dialog.setAttribute("aria-label", "Go to");
    dialog.innerHTML =
      '<input type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-label="Go to a page, ' +
      'topic, view, pipeline or subject" placeholder="Go to …" autocomplete="off" spellcheck="false">' +
      '<ul id="palette-list" role="listbox" aria-label="Pages"></ul>' +
      '<p class="quiet"><kbd>↑</kbd> <kbd>↓</kbd> choose · <kbd>Enter</kbd> open · <kbd>/</kbd> search in a list · ' +
      "<kbd>g</kbd> and a section's first letter</p>";
    const input = dialog.querySelector("input");
    input.addEventListener("input", () => list());
    input.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        move(step);
      } else if (event.key === "Enter") {
        event.preventDefault();
        const chosen = dialog.querySelector("[aria-selected=true]");
        if (chosen) location.assign(chosen.dataset.address);
      }
    });
    dialog.addEventListener("click", (event) => {
      const chosen = event.target.closest("[role=option]");
      if (chosen) location.assign(chosen.dataset.address);
      else if (event.target === dialog) dialog.close();
    });
  }

  // Every word must be part of the name or of the kind. A name that begins with the text comes first, Mainstem's own last.
  function matches(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...sections(), ...targets];
    const hits = all.filter(([kind, name]) => words.every((word) => `${kind} ${name}`.toLowerCase().includes(word)));
    const rank = ([, name]) => (name.startsWith("__") ? 2 : words.length && name.toLowerCase().startsWith(words[0]) ? 0 : 1);
    return hits.sort((a, b) => rank(a) - rank(b)).slice(0, SHOWN_MAX);
  }

  function list() {
    const place = dialog.querySelector("ul");
    place.replaceChildren(
      ...matches(dialog.querySelector("input").value).map(([kind, name, address], number) => {
        const item = document.createElement("li");
        item.id = `palette-${number}`;
        item.setAttribute("role", "option");
        item.dataset.address = address;
        const small = document.createElement("span");
        small.className = "quiet";
        small.textContent = kind;
        item.append(name, " ", small);
        return item;
      })
    );
    if (!place.children.length) {
      const nothing = document.createElement("li");
      nothing.className = "quiet";
      nothing.textContent = "Nothing has that in its name.";
      place.append(nothing);
    }
    select(place.querySelector("[role=option]"));
  }

  function select(item) {
    for (const each of dialog.querySelectorAll("[aria-selected]")) each.removeAttribute("aria-selected");
    const input = dialog.querySelector("input");
    if (!item) return input.removeAttribute("aria-activedescendant");
    item.setAttribute("aria-selected", "true");
    item.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", item.id);
  }

  function move(step) {
    const items = [...dialog.querySelectorAll("[role=option]")];
    const now = items.findIndex((each) => each.hasAttribute("aria-selected"));
    if (items.length) select(items[(now + step + items.length) % items.length]);
  }

  function open() {
    if (!dialog) build();
    if (dialog.open) return;
    dialog.querySelector("input").value = "";
    dialog.showModal();
    list();
    document.getElementById("palette-names")?.dispatchEvent(new Event("names")); // the names come by show()
  }

  function show(names) {
    targets = names;
    if (dialog?.open) list();
  }

  const isTyping = (target) => target.closest?.("input, textarea, select, [contenteditable=true], .cm-editor, dialog");

  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      return open();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key === "/") {
      const field = document.querySelector(".search input");
      if (!field) return;
      event.preventDefault();
      field.focus();
    } else if (event.key === "g") prefixed = event.timeStamp;
    else if (prefixed && event.timeStamp - prefixed < PREFIX_MS) {
      prefixed = 0;
      const to = sections().find(([, name]) => name.toLowerCase().startsWith(event.key.toLowerCase()));
      if (to) location.assign(to[2]);
    }
  });
  return { open, show };
})();
