//! Core: the codes of errors of the store and of its engine.

use std::io;

use engine::OverrideError;
use model::{Code, Coded as _};
use queue_format::journal::AppendError;
use queue_format::store::HeaderError;
use queue_format::{CloseError, FatalError, FileError, OpenError, Refusal};

pub(super) fn of_open(error: &OpenError) -> Option<Code> {
    match error {
        OpenError::Locked { .. } => Some(Code::AlreadyRunning),
        OpenError::Missing { .. } | OpenError::Damaged { .. } | OpenError::Incoming { .. } => {
            Some(Code::StoreDamaged)
        }
        OpenError::Segments { .. } => Some(Code::JournalTooSmall),
        OpenError::Batch { .. } => Some(Code::StoreVersion),
        OpenError::OtherMember { .. } => Some(Code::WrongStore),
        OpenError::Full { .. } => Some(Code::DiskFull),
        OpenError::Prepare { error, .. } | OpenError::Segment { error, .. } => of_disk(error),
        OpenError::Header(error) => of_header(error),
        OpenError::File(error) => of_file(error),
        OpenError::Recover(FatalError::File(error)) => of_file(error),
        OpenError::Journal(error) | OpenError::Recover(FatalError::Journal(error)) => {
            of_journal(error)
        }
        OpenError::Recover(FatalError::Rule { .. }) => Some(Code::Fault),
        OpenError::Recover(_) => Some(Code::StoreFailed),
        OpenError::Options | OpenError::Replicated { .. } => None,
    }
}

pub(super) fn of_member(error: &engine::OpenError) -> Option<Code> {
    match error {
        engine::OpenError::Store(error) => of_open(error),
        engine::OpenError::Remembered(_) => Some(Code::StoreDamaged),
        engine::OpenError::Start(_)
        | engine::OpenError::GoesOn { .. }
        | engine::OpenError::Engine { .. } => Some(Code::StoreFailed),
    }
}

pub(super) const fn of_override(error: &OverrideError) -> Option<Code> {
    match error {
        OverrideError::NotAbove { .. } => Some(Code::RoleNotMoved),
        OverrideError::OtherMember { .. } | OverrideError::Moves => Some(Code::Fault),
        OverrideError::Journal(_) => Some(Code::StoreFailed),
    }
}

pub(super) fn of_header(error: &HeaderError) -> Option<Code> {
    match error {
        HeaderError::Read { error, .. } | HeaderError::Write { error, .. } => of_disk(error),
        HeaderError::Parse { .. } | HeaderError::Checksum { .. } => Some(Code::StoreDamaged),
        HeaderError::Newer { .. } | HeaderError::Older { .. } => Some(Code::StoreVersion),
    }
}

pub(super) fn of_file(error: &FileError) -> Option<Code> {
    match error {
        FileError::Read { error, .. }
        | FileError::Write { error, .. }
        | FileError::Sync { error, .. } => of_disk(error),
    }
}

pub(super) const fn of_close(error: &CloseError) -> Option<Code> {
    match error {
        CloseError::DiskFull => Some(Code::DiskFull),
        CloseError::Failed { .. } => Some(Code::StoreFailed),
    }
}

pub(super) const fn of_refusal(refusal: &Refusal) -> Option<Code> {
    match refusal {
        Refusal::Busy => Some(Code::Overloaded),
        Refusal::DiskFull { .. } => Some(Code::DiskFull),
        Refusal::TooLarge { .. } => Some(Code::ChangeTooLarge),
        Refusal::CutOff => Some(Code::MajorityLost),
        Refusal::Stopped => Some(Code::StoreFailed),
    }
}

fn of_journal(error: &AppendError) -> Option<Code> {
    match error {
        AppendError::Failed { error, .. } => of_disk(error),
        AppendError::Full | AppendError::TooLarge { .. } => Some(Code::StoreFailed),
    }
}

fn of_disk(error: &io::Error) -> Option<Code> {
    error.code().or(Some(Code::StoreFailed))
}
