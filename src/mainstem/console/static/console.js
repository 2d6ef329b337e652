// What the console does in the browser itself: formats, copying, the theme, and the numbers in the flow's picture.
window.mainstem = (() => {
  const NOTHING = "–";
  const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const known = (value) => value !== null && value !== undefined && value !== "";
  const count = (value) => (known(value) ? Number(value).toLocaleString("en-US", { maximumFractionDigits: 0 }) : NOTHING);
  const short = (value) => {
    if (!known(value)) return NOTHING;
    for (const [step, letter] of STEPS)
      if (Math.abs(value) >= step * 0.9995) {
        const scaled = value / step;
        return scaled.toFixed(Math.abs(scaled) < 9.95 ? 1 : 0) + letter;
      }
    return Number.isInteger(value) || Math.abs(value) >= 9.95 ? value.toFixed(0) : value.toFixed(1);
  };
  const rate = (value) => (known(value) ? short(value) + "/s" : NOTHING);
  const bytes = (value) => {
    if (!known(value)) return NOTHING;
    for (const [step, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
      if (value >= step) return (value / step).toFixed(1) + " " + unit;
    return value.toFixed(0) + " B";
  };
  const cell = (value) => {
    if (value === null || value === undefined) return "null";
    if (typeof value === "object") return JSON.stringify(value);
    return String(value); // of a number all digits that tell it from its neighbors
  };

  // The form of requests: curl, Python, JavaScript or a command; one choice for all pages.
  function chooseForm(name) {
    localStorage.setItem("mainstem-form", name);
    document.documentElement.dataset.form = name;
  }
  chooseForm(localStorage.getItem("mainstem-form") || "curl");
  function copyForm(event) {
    const codes = [...event.currentTarget.parentElement.querySelectorAll("code")];
    return copy(codes.find((code) => getComputedStyle(code).display !== "none").textContent, event);
  }

  async function copy(text, event) {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = document.body.appendChild(document.createElement("textarea")); // no permission: the old way
      field.value = text;
      field.select();
      document.execCommand("copy");
      field.remove();
      button.focus();
    }
    button.classList.add("copied");
    button.addEventListener("blur", () => button.classList.remove("copied"), { once: true });
    setTimeout(() => button.classList.remove("copied"), 1500);
    say("Copied");
  }

  function say(text) { // to those who listen instead of looking
    let place = document.getElementById("said");
    if (!place) {
      place = document.body.appendChild(document.createElement("div"));
      Object.assign(place, { id: "said", className: "said" });
      place.setAttribute("role", "status");
    }
    place.textContent = text;
  }

  const THEMES = ["auto", "light", "dark"];
  const ICONS = { auto: "brightness_auto", light: "light_mode", dark: "dark_mode" };
  const theme = () => (THEMES.includes(localStorage.getItem("mainstem-theme")) ? localStorage.getItem("mainstem-theme") : "auto");
  function applyTheme() {
    setDark(theme() === "auto" ? null : theme() === "dark");
    const button = document.getElementById("theme");
    if (!button) return;
    button.setAttribute("aria-label", `Colors: ${theme()}; click for the next`);
    button.title = `Colors: ${theme()}`;
    const icon = button.querySelector(".q-icon");
    if (icon) icon.textContent = ICONS[theme()];
  }
  function nextTheme() {
    localStorage.setItem("mainstem-theme", THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
    applyTheme();
  }

  // A file that was chosen or dropped, to the page's server in pieces.
  const FILE_BYTES_MAX = 8 << 20, PIECE_CHARS = 100000;
  async function sendFile(event, emit) {
    event.preventDefault();
    const file = (event.dataTransfer || event.target).files[0];
    if (!file) return;
    const failed = (error) => emit({ name: file.name, at: 0, text: "", last: true, error });
    if (file.size > FILE_BYTES_MAX) return failed("it has more than 8 MB");
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return failed("it is not UTF-8 text");
    }
    for (let at = 0, end; at === 0 || at < text.length; at = end) {
      end = at + PIECE_CHARS;
      if ((text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end -= 1; // not between the halves of one character
      emit({ name: file.name, at, text: text.slice(at, end), last: end >= text.length });
    }
  }
  function unfold(id) {
    const details = document.getElementById(id);
    details.open = true;
    details.scrollIntoView({ block: "start" });
  }

  // Numbers change in place, so that whoever has a node in focus keeps it there.
  function flow(texts) {
    for (const [id, [text, kind]] of Object.entries(texts)) {
      const place = document.getElementById(id);
      if (!place) continue;
      if (place.textContent !== text) place.textContent = text;
      if (kind !== null) place.setAttribute("data-state", kind);
    }
  }

  // The SQL workbench: the editor's names and colors, and the queries that the browser keeps.
  const offered = {};
  async function sqlEditor(id) {
    const CM = await import("nicegui-codemirror");
    const component = getElement(id);
    await component.editorPromise;
    const complete = (context) => {
      const word = context.matchBefore(/[\w"]+/);
      if (!word && !context.explicit) return null;
      return { from: word ? word.from : context.pos, options: offered[id] || [], validFor: /^[\w"]*$/ };
    };
    component.editor.dispatch({
      effects: CM.StateEffect.appendConfig.of([
        CM.EditorState.languageData.of(() => [{ autocomplete: complete }]),
        CM.EditorView.contentAttributes.of({ "aria-label": "One SELECT (Ctrl+Enter runs it)" }),
      ]),
    });
    component.editor.setTabFocusMode(true); // Tab leaves the editor, as everywhere else
    const color = () => component.setTheme(document.body.classList.contains("body--dark") ? "githubDark" : "githubLight");
    new MutationObserver(color).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    color();
  }
  function sqlNames(id, names) {
    offered[id] = names.map(([label, kind]) => ({ label, type: kind === "table" ? "class" : "property", detail: kind, boost: 50 }));
  }
  async function sqlInsert(id, name) {
    const component = getElement(id);
    await component.editorPromise;
    const state = component.editor.state;
    const before = state.sliceDoc(state.selection.main.from - 1, state.selection.main.from);
    component.editor.dispatch(state.replaceSelection((/[\w",]/.test(before) ? " " : "") + name));
    component.editor.focus();
  }
  const KEPT_MAX = 50, QUERY_MAX = 20000, KEPT_CHARS_MAX = 200000;
  const queries = {
    all() {
      try {
        const kept = JSON.parse(localStorage.getItem("mainstem-queries")) || {};
        return { history: kept.history || [], saved: kept.saved || [] };
      } catch {
        return { history: [], saved: [] };
      }
    },
    write(kept) {
      while (kept.history.length && JSON.stringify(kept).length > KEPT_CHARS_MAX) kept.history.pop();
      while (kept.saved.length && JSON.stringify(kept).length > KEPT_CHARS_MAX) kept.saved.pop();
      localStorage.setItem("mainstem-queries", JSON.stringify(kept));
    },
    remember(view, query) {
      if (query.length > QUERY_MAX) return;
      const kept = this.all();
      const others = kept.history.filter((each) => each.view !== view || each.query !== query);
      kept.history = [{ view, query }, ...others].slice(0, KEPT_MAX);
      this.write(kept);
    },
    save(view, query, name) {
      const kept = this.all();
      kept.saved = [{ name, view, query }, ...kept.saved.filter((each) => each.name !== name)].slice(0, KEPT_MAX);
      this.write(kept);
    },
    forget(name) {
      const kept = this.all();
      kept.saved = kept.saved.filter((each) => each.name !== name);
      this.write(kept);
    },
  };
  function drawer(id, event) { // on a phone: what stands beside the content otherwise
    const place = document.getElementById(id);
    const button = event.currentTarget;
    const isOpen = place.classList.toggle("open");
    button.setAttribute("aria-expanded", String(isOpen));
  }

  return { count, short, rate, bytes, cell, copy, chooseForm, copyForm, sendFile, unfold, nextTheme, applyTheme, flow,
    sqlEditor, sqlNames, sqlInsert, queries, drawer };
})();
addEventListener("load", () => {
  const wait = setInterval(() => {
    if (!document.getElementById("theme")) return;
    clearInterval(wait);
    mainstem.applyTheme();
  }, 20);
});
