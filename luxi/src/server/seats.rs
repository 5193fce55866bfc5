//! How many connections there are, in all and of each user.

use std::collections::HashMap;
use std::sync::Arc;

use model::Exception;
use model::error::ExceptionKind;
use parking_lot::Mutex;

/// The places for connections.
#[derive(Debug, Clone)]
pub(super) struct Seats(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    total: usize,
    by_user: HashMap<u32, usize>,
    total_max: usize,
    user_max: usize,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Full {
    #[error("Too many connections: the master serves {max} at a time; try again later")]
    All { max: usize },
    #[error("Too many connections: user {uid} has {max}, which is the limit; try again later")]
    User { uid: u32, max: usize },
}

impl From<Full> for Exception {
    fn from(full: Full) -> Self {
        Self::new(ExceptionKind::GenericError, full.to_string())
    }
}

/// A place; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Seats,
    uid: u32,
}

impl Seats {
    pub(super) fn new(total_max: usize, user_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken { total: 0, by_user: HashMap::new(), total_max, user_max })))
    }

    pub(super) fn take(&self, uid: u32) -> Result<Seat, Full> {
        let mut taken = self.0.lock();
        if taken.total >= taken.total_max {
            return Err(Full::All { max: taken.total_max });
        }
        let user_max = taken.user_max;
        let of_user = taken.by_user.entry(uid).or_default();
        if *of_user >= user_max {
            return Err(Full::User { uid, max: user_max });
        }
        *of_user += 1;
        taken.total += 1;
        Ok(Seat { seats: self.clone(), uid })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock();
        taken.total -= 1;
        if let Some(of_user) = taken.by_user.get_mut(&self.uid) {
            *of_user -= 1;
            if *of_user == 0 {
                taken.by_user.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_all() {
        let seats = Seats::new(3, 2);
        let first = seats.take(1).unwrap();
        let _second = seats.take(1).unwrap();
        assert_eq!(seats.take(1).unwrap_err(), Full::User { uid: 1, max: 2 });
        let _third = seats.take(2).unwrap();
        assert_eq!(seats.take(2).unwrap_err(), Full::All { max: 3 });
        drop(first);
        assert!(seats.take(1).is_ok());
        assert_eq!(seats.0.lock().total, 2);
    }
}
