//! Clients that ask the master's socket for machines, or change them: what the front door is compared with.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use luxi::client::Client;
use luxi::method::{Fields, Query, SubmitJob, What};
use luxi::query::Filter;
use model::OpInput;
use model::opcode::{MachineSetParams, OpCode};

use super::{ClientFailure, Tally, keep, succeed};
use crate::bench::front::LABEL;
use crate::bench::register::serial;

/// The request that a client sends again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// One machine, by its serial number.
    One,
    /// All machines.
    All,
    /// Another value of a label of one machine, until its job has succeeded.
    Label,
}

/// The load of such clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) question: Question,
    pub(super) machines: u32,
    pub(super) connections: usize,
    pub(super) time: Duration,
}

/// Asks over all connections until the time is over. The answers count as jobs.
pub(super) fn run(socket: &Path, load: Load) -> Result<Tally, ClientFailure> {
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..load.connections).map(|_| scope.spawn(move || ask(socket, load))).collect();
        let mut all = Tally::default();
        for client in clients {
            let joined = client.join();
            let one = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            all.jobs += one.jobs;
            all.finish_us.extend(one.finish_us);
        }
        Ok(all)
    })
}

fn ask(socket: &Path, load: Load) -> Result<Tally, ClientFailure> {
    let mut client = Client::connect(socket)?;
    let mut tally = Tally::default();
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < load.time {
        // A prime: neighbours are not asked for after each other.
        number = (number + 7_919) % load.machines;
        let serial = serial(number);
        let asked = Instant::now();
        match load.question {
            Question::Label => change(&mut client, serial, tally.jobs)?,
            Question::One => query(&mut client, Some(Filter::any_of("serial", [serial.as_str()])))?,
            Question::All => query(&mut client, None)?,
        }
        keep(&mut tally.finish_us, asked.elapsed());
        tally.jobs += 1;
    }
    Ok(tally)
}

fn query(client: &mut Client, filter: Option<Filter>) -> Result<(), ClientFailure> {
    let fields = Fields::from(["document"]);
    client.call(&Query { what: What::Machine, fields, filter })?;
    Ok(())
}

fn change(client: &mut Client, serial: String, value: u64) -> Result<(), ClientFailure> {
    let labels = BTreeMap::from([(LABEL.to_owned(), Some(value.to_string()))]);
    let op = OpCode::MachineSetParams(MachineSetParams { serial, labels, ..Default::default() });
    let id = client.call(&SubmitJob { ops: vec![OpInput::new(op)] })?;
    succeed(client, id)
}
