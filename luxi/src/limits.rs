//! Core: every limit of the protocol, in one place.

use std::time::Duration;

/// Longest request in bytes. Ten thousand trivial jobs in one `SubmitManyJobs` are 4 MiB.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Longest answer in bytes. Every field of a hundred thousand jobs is about 100 MiB; a longer
/// answer is asked for in parts.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Requests up to this many bytes need no permit; nearly all are far shorter.
pub const SMALL_MESSAGE_BYTES: usize = 64 << 10;
/// Requests above [`SMALL_MESSAGE_BYTES`] that are read and worked on at the same time: with
/// [`MESSAGE_BYTES_MAX`] this bounds what all clients together can make the master hold.
pub const LARGE_MESSAGES_MAX: usize = 8;
/// The same of one user: three quarters, so that one who sends slowly keeps nobody else waiting.
pub const LARGE_MESSAGES_PER_USER_MAX: usize = LARGE_MESSAGES_MAX / 4 * 3;
/// Clients that wait to be accepted: hundreds of commands started by one loop come at once. The
/// system takes the smaller of this and `net.core.somaxconn`, 4,096 as a rule.
pub const BACKLOG: i32 = 1_024;
/// Connections at the same time, most of them idle; one costs less than ten KiB then. A process that may
/// open fewer files takes what [`OTHER_FILES`] leaves of them, and half at least.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Files that a process keeps for everything but these connections.
pub const OTHER_FILES: u64 = 2_048;
/// Connections of one user: three quarters, so that no single user locks out all others.
pub const CONNECTIONS_PER_USER_MAX: usize = CONNECTIONS_MAX / 4 * 3;
/// How long an idle connection keeps the memory of its last request.
pub const BUFFER_TIME: Duration = Duration::from_secs(1);
/// How long a connection may do nothing between requests. Clients reconnect by themselves.
pub const IDLE_TIME: Duration = Duration::from_secs(300);
/// How long a request may take from its first byte to its ETX. Local clients write at once.
pub const MESSAGE_TIME: Duration = Duration::from_secs(30);
/// How long a client may take to read an answer; the time that its own end waits is 180 s.
pub const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Answers up to this many bytes are not counted; most fit the buffer of their socket.
pub const SMALL_ANSWER_BYTES: usize = 64 << 10;
/// Bytes of longer answers that are not read yet, of all clients together: two of the longest. One user
/// has three quarters of them.
pub const UNREAD_BYTES_MAX: usize = 2 * ANSWER_BYTES_MAX;
/// How long a client has to read a long answer before it may be cut off where others need room. A
/// local one reads a hundred megabytes in a tenth of that.
pub const UNREAD_TIME: Duration = Duration::from_secs(2);
/// How long requests may go on after the server was asked to stop.
pub const STOP_TIME: Duration = Duration::from_secs(5);
/// How long to wait after a connection could not be accepted: the reason, as a rule too many open
/// files, does not go away at once.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Deadline of a query: it reads memory, so a longer one hangs.
pub const QUERY_DEADLINE: Duration = Duration::from_secs(30);
/// Deadline of a change: longer than any disk or candidate takes that still works, and shorter
/// than the 180 s after which clients give up.
pub const CHANGE_DEADLINE: Duration = Duration::from_secs(90);
/// Longest time that `WaitForJobChange` and `AutoArchiveJobs` may take: clients wait 180 s for an
/// answer, and Ganeti asks for at most (180 − 1) / 2.
pub const WAIT_SECONDS_MAX: f64 = 89.0;
/// Deadline of the methods that wait: [`WAIT_SECONDS_MAX`] and what the answer itself may take.
pub const WAIT_DEADLINE: Duration = Duration::from_secs(99);
/// The time that a client waits beyond a method's deadline, so that it sees the server's own words.
pub const CLIENT_GRACE: Duration = Duration::from_secs(15);
/// How long a client waits for a place in the server's queue of connections.
pub const CONNECT_TIME: Duration = Duration::from_secs(30);

/// Fields of one query; Ganeti's longest list, of instances, has 292.
pub const FIELDS_MAX: usize = 512;
/// Conditions in one filter. `gnt job list` with ids makes one for each.
pub const FILTER_CONDITIONS_MAX: usize = 16_384;
/// Nesting of a filter; JSON itself ends at 128.
pub const FILTER_DEPTH_MAX: usize = 32;
/// Regular expressions in one filter: each is run on every row.
pub const FILTER_PATTERNS_MAX: usize = 64;
/// Length of a regular expression.
pub const PATTERN_BYTES_MAX: usize = 1_024;
/// Memory of one compiled regular expression; a bound for `(a{1000}){1000}`.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 18;

/// The limits that a server keeps; tests make them small.
#[derive(Debug, Clone)]
pub struct Limits {
    /// [`MESSAGE_BYTES_MAX`].
    pub message_bytes: usize,
    /// [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// [`CONNECTIONS_PER_USER_MAX`].
    pub connections_per_user: usize,
    /// [`BUFFER_TIME`].
    pub buffer_time: Duration,
    /// [`IDLE_TIME`].
    pub idle: Duration,
    /// [`MESSAGE_TIME`].
    pub message_time: Duration,
    /// [`ANSWER_TIME`].
    pub answer_time: Duration,
    /// [`UNREAD_BYTES_MAX`].
    pub unread_bytes: usize,
    /// [`UNREAD_TIME`].
    pub unread_time: Duration,
    /// [`STOP_TIME`].
    pub stop_time: Duration,
    /// [`QUERY_DEADLINE`].
    pub query: Duration,
    /// [`CHANGE_DEADLINE`].
    pub change: Duration,
    /// [`WAIT_DEADLINE`].
    pub wait: Duration,
}

impl Limits {
    /// These limits where the process may open so many `files`.
    pub fn within_files(mut self, files: u64) -> Self {
        let free = files.saturating_sub(OTHER_FILES).max(files / 2);
        let free = usize::try_from(free).unwrap_or(usize::MAX);
        self.connections = self.connections.min(free);
        self.connections_per_user = self.connections_per_user.min(self.connections / 4 * 3);
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MESSAGE_BYTES_MAX,
            connections: CONNECTIONS_MAX,
            connections_per_user: CONNECTIONS_PER_USER_MAX,
            buffer_time: BUFFER_TIME,
            idle: IDLE_TIME,
            message_time: MESSAGE_TIME,
            answer_time: ANSWER_TIME,
            unread_bytes: UNREAD_BYTES_MAX,
            unread_time: UNREAD_TIME,
            stop_time: STOP_TIME,
            query: QUERY_DEADLINE,
            change: CHANGE_DEADLINE,
            wait: WAIT_DEADLINE,
        }
    }
}
