//! The fuzz targets: each takes any bytes, and panics where a rule is broken.
//!
//! `cargo xtask fuzz NAME` looks for such bytes; `tests/tests/fuzz_corpus.rs` runs what lies in
//! `fuzz/corpus` through the same functions.

#[path = "dhcp_server.rs"]
mod server;

use bytes::Bytes;
use luxi::Request;
use luxi::frame::Splitter;
use luxi::query::Filter;
use model::Job;
use netboot::dhcp::packet::{Identity, Packet};
use queue_format::journal::{frame, live, record};
use queue_format::{Batch, Position};
pub(crate) use server::dhcp_server;

/// Takes any bytes.
type Target = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
pub(crate) const TARGETS: &[(&str, Target)] = &[
    ("luxi_frames", luxi_frames),
    ("luxi_requests", luxi_requests),
    ("query_filters", query_filters),
    ("job_files", job_files),
    ("journal", journal),
    ("dhcp_packets", dhcp_packets),
    ("dhcp_server", dhcp_server),
];

/// Longest message that frames are cut with here.
const MESSAGE_BYTES_MAX: usize = 300;

/// The messages of a stream that arrives in pieces of so many bytes; none where it is refused.
fn messages(stream: &[u8], piece: usize) -> Option<Vec<Bytes>> {
    let mut splitter = Splitter::new(MESSAGE_BYTES_MAX);
    let mut found = Vec::new();
    for piece in stream.chunks(piece.max(1)) {
        splitter.buffer().extend_from_slice(piece);
        while let Some(message) = splitter.next_message().ok()? {
            assert!(message.len() <= MESSAGE_BYTES_MAX);
            found.push(message);
        }
    }
    Some(found)
}

/// However bytes arrive, the same messages come of them.
pub(crate) fn luxi_frames(input: &[u8]) {
    let Some((&piece, stream)) = input.split_first() else { return };
    let (cut, whole) = (messages(stream, piece.into()), messages(stream, stream.len()));
    assert_eq!(cut, whole);
}

/// Any message is a request, or an error that says why not.
pub(crate) fn luxi_requests(input: &[u8]) {
    if let Err(error) = Request::parse(input) {
        assert!(!error.to_string().is_empty());
    }
}

/// A filter that reads is written as one that is the same.
pub(crate) fn query_filters(input: &[u8]) {
    let Ok(filter) = serde_json::from_slice::<Filter>(input) else { return };
    let text = serde_json::to_string(&filter).expect("a filter can be written");
    let again: Filter = serde_json::from_str(&text).expect("what was written reads");
    assert_eq!(serde_json::to_string(&again).expect("likewise"), text);
    let mut asked = Vec::new();
    let _holds = filter.holds(|field| {
        asked.push(field.to_owned());
        None
    });
    let fields = filter.fields();
    assert!(asked.iter().all(|field| fields.contains(&field.as_str())));
    for field in fields {
        let _values = filter.only_values_of(field);
    }
    let _ids = filter.only_job_ids();
}

/// A job that reads is written as one that is the same.
pub(crate) fn job_files(input: &[u8]) {
    let Ok(job) = serde_json::from_slice::<Job>(input) else { return };
    let _seen = (job.status(), job.priority(), job.current(), job.log_serial());
    let text = serde_json::to_vec(&job).expect("a job can be written");
    let again: Job = serde_json::from_slice(&text).expect("what was written reads");
    assert_eq!(serde_json::to_vec(&again).expect("likewise"), text);
}

/// Any bytes are a segment, of which the whole frames are found; records that read are found again
/// in a frame of their own.
pub(crate) fn journal(input: &[u8]) {
    const SALT: u32 = 7;
    let bytes = Bytes::copy_from_slice(input);
    let frames = frame::scan(&bytes, SALT);
    let _live =
        live::read(frames.into_iter().map(|frame| (0, frame)).collect(), 0, Position::default());
    if let Ok(records) = record::decode_all(bytes.clone()) {
        let header = frame::Header { lsn: 1, committed: 1, checkpoint: 0 };
        let mut segment = Vec::new();
        frame::encode(header, &records, SALT, &mut segment);
        let frames = frame::scan(&segment.into(), SALT);
        assert_eq!(frames.len(), 1);
        assert_eq!(record::decode_all(frames[0].records.clone()).expect("they did"), records);
        let _live = live::read(
            frames.into_iter().map(|frame| (0, frame)).collect(),
            0,
            Position::default(),
        );
    }
    if let Ok(batch) = Batch::decode(bytes) {
        assert_eq!(Batch::decode(batch.encode()).expect("it did"), batch);
    }
}

/// Any packet is read, or refused; nothing that is asked of it panics.
pub(crate) fn dhcp_packets(input: &[u8]) {
    let Ok(packet) = Packet::decode(input) else { return };
    for code in 0..=u8::MAX {
        let _value = (packet.option(code).map(<[u8]>::len), packet.address(code));
        let _relay = (packet.relay_sub_option(code), packet.relay_address(code));
    }
    let _fields = (packet.message_type(), packet.message_size_max(), packet.requested_options());
    let _machine = (packet.machine_uuid(), packet.mac(), packet.is_relayed());
    assert!(packet.architectures().count() <= input.len());
    let _class = packet.has_user_class(b"iPXE");
    if let Some(identity) = Identity::of(&packet) {
        let _mac = identity.mac();
    }
}
