//! The real `gnt` against a small server: what it prints, what it asks for, how it ends.
#![expect(clippy::unwrap_used, reason = "a test which unwraps a surprise has done its job")]

mod commands;
mod completion;
mod failures;
mod help;
mod script;
mod standing;
mod terminal;
mod toy;
mod wire;
