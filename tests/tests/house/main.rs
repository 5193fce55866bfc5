//! The house rules: what the workspace promises about its own source, checked on the source.
//!
//! [`source`] reads the tree; each other module is one set of rules. Crates and modules: their uses of
//! each other ([`direction`], [`circles`]), the limits of a core ([`purity`]), what is built once
//! ([`selections`]). Files: their look ([`tidiness`]), their comments ([`comments`]), the reader's way
//! into them ([`reading_order`]). Agreement with the source: documents ([`codes`], [`documents`],
//! [`metrics`]) and packages ([`packaging`]).

mod source;

mod circles;
mod codes;
mod comments;
mod direction;
mod documents;
mod metrics;
mod packaging;
mod purity;
mod reading_order;
mod selections;
mod tidiness;
