// Sign-in: the token is sent once and not kept here; the server answers with a cookie that scripts cannot read.
import { useState } from "preact/hooks";
import { ApiError, isSignedOut, signIn } from "../api";
import { sentence } from "../format";
import icon from "../icon.svg";

export function SignIn() {
  const [token, setToken] = useState("");
  const [told, setTold] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await signIn(token);
      setToken("");
      isSignedOut.value = false;
    } catch (error) {
      setTold(error instanceof ApiError ? sentence(error.message) : String(error));
    }
  };
  return (
    <section class="card" style={{ maxWidth: "420px", width: "100%", margin: "48px auto" }}>
      <span class="brand"><img src={icon} alt="" width="24" height="24" />Tollgate</span>
      <h1>Sign in</h1>
      <p class="dim">This server wants its admin token: the value of <code>TOLLGATE_ADMIN_TOKEN</code> that it was started with.</p>
      <form onSubmit={(event) => void submit(event)} style={{ display: "grid", gap: "12px" }}>
        <label class="field">Token<input type="password" autocomplete="current-password" value={token} onInput={(event) => setToken(event.currentTarget.value)} required /></label>
        {told && <p class="bad" role="alert">{told}</p>}
        <button class="primary">Sign in</button>
      </form>
    </section>
  );
}
