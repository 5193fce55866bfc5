//! Switches and their ports, which follow the machines behind them.
//!
//! [`desired`] says what a port is to have: a pure function of the configuration. `settle` brings ports
//! there, as a step of a machine's job or as a job of its own. `reach` is the way to a switch by an
//! agent, `watch` notices what is not as it is to be. [`switch`], [`port`] and [`configuration`] are
//! the opcodes, [`fields`] the lists.

pub mod configuration;
pub mod desired;
pub mod fields;
pub mod port;
pub(crate) mod reach;
pub(crate) mod settle;
pub mod switch;
pub(crate) mod watch;
