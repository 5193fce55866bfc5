//! How long a controller may take.

use std::time::Duration;

/// Times of one controller; the defaults are right for hardware, tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Until there is a connection, TLS included. Apart from [`Self::answer`]: one that is not there must
    /// not hold a job up for as long as a slow one may.
    pub connect: Duration,
    /// Until a request is answered: some controllers need most of a minute.
    pub answer: Duration,
    /// Until a session is ended; a controller that does not answer that holds nobody up.
    pub farewell: Duration,
    /// Until the power is seen to be switched.
    pub switch: Duration,
    /// Until an operating system that was asked has switched its machine off.
    pub soft_off: Duration,
    /// Between two looks at it.
    pub look: Duration,
    /// Before an order to the power is repeated that was not taken, or of which that is not known.
    pub order_again: Duration,
    /// Until a change is seen to be kept: some controllers take it over in the background.
    pub keep: Duration,
    /// Before a request is repeated that the controller was too busy for; longer each time.
    pub busy: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            farewell: Duration::from_secs(10),
            switch: Duration::from_secs(60),
            soft_off: Duration::from_secs(300),
            look: Duration::from_secs(1),
            order_again: Duration::from_secs(5),
            keep: Duration::from_secs(5),
            busy: Duration::from_secs(2),
        }
    }
}
