//! The real Envoy in front of Tollgate, as people run both.
//!
//! Each test starts an upstream, the binary `tollgate` and an Envoy, all on ports that the system
//! chooses, sends HTTP to Envoy, and looks at what comes back. `cargo xtask setup` installs Envoy.
//!
//! | module | what it holds |
//! |---|---|
//! | `answers` | what an HTTP caller gets to see of every kind of rule |
//! | `telling` | the headers and the body that callers get where Tollgate may tell them |
//! | `tokens` | the example for language models: costs that are known when the answer has ended |
//! | `life` | rules that change and servers that end while requests flow |
//! | `world` | the three processes, together |
//! | `envoy`, `tollgate`, `upstream` | one of them each |
//! | `http` | a request and its answer |
//! | `patience` | waiting for something outside, up to a deadline |

mod answers;
mod envoy;
mod http;
mod life;
mod patience;
mod telling;
mod tokens;
mod tollgate;
mod upstream;
mod world;
