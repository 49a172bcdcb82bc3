// Questions to the server, with the token where it wants one.

const KEY = "openrknn-token";

/** The answer; asks the user for the token where one is needed, and throws an Error with the server's words. */
export async function ask(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const answer = await fetch(path, { ...options, headers, cache: "no-store" });
    if (answer.status === 401) {
      await login();
      continue;
    }
    if (!answer.ok) {
      const { error } = await answer.json().catch(() => ({}));
      throw new Error(error?.message ?? error ?? `the server says ${answer.status}`);
    }
    return answer;
  }
}

export async function askJson(path, options) {
  return (await ask(path, options)).json();
}

let asking = null;

function login() {
  asking ??= new Promise((done) => {
    const dialog = document.getElementById("login");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, document.getElementById("token").value);
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
