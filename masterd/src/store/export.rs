//! A whole store at one moment as one file: what `gnt cluster export` writes and `import` reads.
//!
//! In reading order: [`manifest`] is what a file says of itself, [`frame`] its form byte by byte,
//! [`seal`] how secrets lie in it. The module [`write`](mod@write) makes one, [`read`] takes one apart
//! and checks it. A client of a running master gets one from [`downloads`], piece by piece; [`at_rest`]
//! makes one of a store that nobody has open. The passphrase of the secrets comes from [`passphrase`].

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
