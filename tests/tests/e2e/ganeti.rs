//! Ganeti's own clients, as Debian packages them, unmodified: what they ask this master for, and
//! what they make of its answers.

mod adopted;
mod clients;
mod lists;
mod objects;
mod tags;
