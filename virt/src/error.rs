//! Why something of an instance was not done.

use std::io;
use std::path::PathBuf;

use model::InstanceName;

use crate::image::ImageError;
use crate::qmp::QmpError;

/// A failure of one operation.
#[derive(Debug, thiserror::Error)]
pub enum VirtError {
    /// A newer run was seen.
    #[error("run {run} of instance {name} is over: this node has seen run {highest}")]
    Over { name: InstanceName, run: u64, highest: u64 },
    /// An older run lives.
    #[error("run {alive} of instance {name} still lives here; run {run} cannot begin")]
    Lives { name: InstanceName, alive: u64, run: u64 },
    /// The run does not live.
    #[error("run {run} of this instance does not live here: {state}")]
    NotAlive { run: u64, state: String },
    /// Copies are served to a run of another node.
    #[error(
        "this node serves copies of disks of instance {name} to its run {served} on another node; run {run} \
         cannot begin here"
    )]
    Serves { name: InstanceName, served: u64, run: u64 },
    /// The program that serves copies is not here.
    #[error("this node serves no copies of disks: there is no {0}; the package qemu-utils has it")]
    NoStorageDaemon(PathBuf),
    /// A copy that is to be served is not there.
    #[error("there is no disk {path} on this node")]
    NoDisk { path: String },
    /// A copy has not the size of its disk.
    #[error("disk {path} has {has} MiB on this node, where {wanted} MiB are wanted")]
    DiskSize { path: String, has: u64, wanted: u64 },
    /// The run has no such disk with another copy.
    #[error("run {run} of instance {name} has no mirrored disk {disk}")]
    NotMirrored { name: InstanceName, run: u64, disk: model::Uuid },
    /// The node has as many instances as it may.
    #[error("this node has {0} instances, which is the limit")]
    Full(usize),
    /// No such hypervisor is here.
    #[error(
        "hypervisor `{0}` runs nothing on this node: this version has kvm, xen-pvm, xen-hvm and fake"
    )]
    Hypervisor(String),
    /// Xen's program is not here.
    #[error(
        "hypervisor {hypervisor} runs nothing on this node: there is no {xl}; the package xen-utils has it"
    )]
    NoXl { hypervisor: String, xl: PathBuf },
    /// The hypervisor says no.
    #[error("the hypervisor cannot {what} instance {name}: {why}")]
    Refused { what: &'static str, name: InstanceName, why: String },
    /// A content is longer than its disk.
    #[error("disk {path} has {size} MiB, and its content would end at byte {end}")]
    Behind { path: String, end: u64, size: u64 },
    /// A run did not begin, as the copy of one of its disks on another node cannot be written.
    #[error("cannot start instance {name}: {why}")]
    Copy { name: InstanceName, why: String },
    /// The hypervisor of this version cannot do it at all.
    #[error("hypervisor {hypervisor} cannot {what} in this version")]
    NotYet { hypervisor: String, what: &'static str },
    /// The user that a guest's process is to have.
    #[error("no user for the guest's process: {0}")]
    User(String),
    /// The monitor of a guest.
    #[error(transparent)]
    Monitor(#[from] QmpError),
    /// The kernel does not let its network be changed.
    #[error("cannot reach the kernel's network")]
    Network(#[source] io::Error),
    /// A path at which no disks may lie.
    #[error(
        "path {path} is not below a directory for disks; {list} names those of this node, one in a line"
    )]
    Forbidden { path: String, list: PathBuf },
    /// An image does not come onto a disk.
    #[error("cannot write image {image} to disk {disk}")]
    Image {
        image: PathBuf,
        disk: PathBuf,
        #[source]
        error: ImageError,
    },
    /// A script of an operating system.
    #[error("operating system {os}: {why}")]
    System { os: String, why: String },
    /// A disk is smaller than it is to be.
    #[error("disk {path} has {has} MiB, and cannot become smaller, {wanted} MiB")]
    Shrinks { path: String, has: u64, wanted: u64 },
    /// The agent ends.
    #[error("the agent ends")]
    Ends,
    /// There is no room.
    #[error("disk {path} needs {wanted} MiB more, and {free} MiB are free")]
    NoRoom { path: String, wanted: u64, free: u64 },
    /// The system says no.
    #[error("cannot {what} `{path}`")]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A record that this version does not understand.
    #[error("the record `{path}` of an instance does not read")]
    Record {
        path: PathBuf,
        #[source]
        error: serde_json::Error,
    },
}
