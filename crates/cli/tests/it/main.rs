//! The binary as people run it: exact output, exit codes, bad input.
//!
//! | module | what it shows |
//! |---|---|
//! | `bench` | the load generator against a running server, and against what is none |
//! | `deferred` | requests that are sent later: fifty kills, a node that takes over, Redis away |
//! | `demo` | the demo, and that nothing is left of it |
//! | `damaged_history` | a damaged history as a running server meets it |
//! | `deploy` | what `deploy/` ships, held against the binary |
//! | `full_disk` | what becomes of history when nothing can be written |
//! | `gateway` | the gateway between real programs |
//! | `golden` | how a run is compared with what it must print |
//! | `history` | a history from a log, asked in every format |
//! | `history_server` | a running server gives what its folder gives |
//! | `runs` | every command on good and bad input, word for word |
//! | `serve` | the service as a process: first lines, signals, exit codes |
//! | `readme` | what the README shows is what a server answers |
//! | `nodes` | several nodes on one Redis, one of which is killed |
//! | `replay` | recorded traffic by other rules, held against a count by brute force |
//! | `restart` | counters that survive the end of the process |
//! | `story` | the newcomer's story of the guide, command by command |
//! | `suggest` | what a server has counted, asked from it and from its folder |
//! | `top` | the live view on a real terminal, and as text |
//! | `rule_tests` | rule tests for harnesses, and again after a change |
//! | `unread` | what callers who never read have a server hold |
//! | `machines` | JSON parses, XML is well-formed, colours stay on terminals |

mod bench;
mod damaged_history;
mod deferred;
mod demo;
mod deploy;
mod full_disk;
mod gateway;
mod golden;
mod history;
mod history_server;
mod machines;
mod nodes;
mod readme;
mod replay;
mod restart;
mod rule_tests;
mod runs;
mod serve;
mod story;
mod suggest;
mod top;
mod unread;
