//! The house rules: what the workspace promises about its own source, checked on the source.
//!
//! [`source`] reads the tree; each other module is one set of rules: which crate may use which
//! ([`direction`]), what a core must not contain ([`purity`]), how files look ([`tidiness`]), where a reader begins
//! ([`reading_order`]),
//! what the documents must agree with ([`codes`], [`documents`], [`metrics`]), what the packages must
//! ([`packaging`]) and what is built once ([`selections`]).

mod source;

mod circles;
mod codes;
mod direction;
mod documents;
mod metrics;
mod packaging;
mod purity;
mod reading_order;
mod selections;
mod tidiness;
