//! A whole store at one moment as one file: what `gnt cluster export` writes and `import` reads.
//!
//! In reading order: [`manifest`] is what a file says of itself, [`frame`] its form byte by byte,
//! [`seal`] how secrets lie in it; [`write`](mod@write) makes one, [`read`] takes one apart and checks it;
//! [`downloads`] hands one to a client of a running master, piece by piece, [`at_rest`] makes one of a
//! store that nobody has open; [`passphrase`] reads what secrets are sealed with.

pub mod at_rest;
pub mod downloads;
pub mod frame;
pub mod manifest;
pub mod passphrase;
pub mod read;
pub mod seal;
pub mod write;

#[cfg(test)]
mod tests;
