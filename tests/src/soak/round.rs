//! One round: trouble, what an operator does about it, its end, and the comparison.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::Asked;
use super::record::Record;
use crate::run::pass;
use crate::seed::Seed;
use crate::testbed::daemons::ending;
use crate::testbed::scene::Scene;
use crate::testbed::trouble::Trouble;
use crate::testbed::{NODES, masterd_of, noded_of};

/// Trouble lasts at least so long, in milliseconds.
const LEAST_MS: u64 = 200;
/// And at most so much longer: beyond the time after which a leader counts as silent, a master gives
/// its address up, and others fail over.
const MORE_MS: u64 = 9_000;
/// Load before trouble, in milliseconds at most.
const BEFORE_MS: u64 = 2_000;
/// How long others may take to become master by themselves: the silence, two questions that time
/// out, and a second attempt.
const BY_ITSELF_WITHIN: Duration = Duration::from_secs(45);
/// A piece of a time that passes, after which the wish to end is looked at.
const PIECE: Duration = Duration::from_millis(100);

/// The state that goes from round to round.
#[derive(Debug)]
pub struct State {
    /// The nodes, and clients that never rest for long.
    pub scene: Scene,
    auto_failover: bool,
    asked: Asked,
}

/// The round that is played.
pub(super) struct Round<'r> {
    pub(super) number: u64,
    pub(super) seed: &'r mut Seed,
    pub(super) record: &'r mut Record,
}

impl Round<'_> {
    fn event(&mut self, kind: &str, about: &str) {
        self.record.event(self.number, kind, about);
    }

    /// Whether it comes to what happens once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.seed.below(times) == 0
    }
}

impl State {
    /// Begins with a scene that is well.
    pub fn begin(scene: Scene, asked: Asked) -> Self {
        Self { scene, auto_failover: false, asked }
    }

    /// One round, from a cluster that is well to one that is again.
    ///
    /// # Errors
    /// What was found.
    pub(super) fn play(&mut self, round: &mut Round<'_>) -> Result<(), String> {
        let (before, last) = (self.scene.master, self.scene.reckoning.totals);
        let auto_failover = round.once_in(2);
        if auto_failover != self.auto_failover {
            self.scene.set_auto_failover(auto_failover);
            self.auto_failover = auto_failover;
        }
        self.scene.clients.resume();
        self.hold(Duration::from_millis(round.seed.below(BEFORE_MS)));
        match round.once_in(10) {
            true => self.hand_over(round)?,
            false => self.trouble(round)?,
        }
        let rested = self.scene.rest()?;
        let master = self.name(self.scene.master).to_owned();
        if before != self.scene.master {
            round.event("the role has moved", &format!(" to {master}"));
        }
        let now = self.scene.reckoning.totals;
        round.record.say(&format!(
            "round {}: well after {:.1} s; {master} is master; {} acknowledged, {} refused, {} \
             unknown; {:.1} s without an acknowledgement",
            round.number,
            rested.settled.as_secs_f64(),
            now.acknowledged - last.acknowledged,
            now.refused - last.refused,
            now.unknown - last.unknown,
            rested.outage.as_secs_f64(),
        ));
        round.record.round(round.number, rested.outage);
        Ok(())
    }

    fn name(&self, node: usize) -> &str {
        self.scene.testbed.name(node)
    }

    /// Lets time pass, unless the end is wanted.
    fn hold(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.asked.to_end() {
            pass(PIECE.min(time));
        }
    }

    fn another(&self, node: usize, round: &mut Round<'_>) -> usize {
        let others: Vec<usize> = (0..NODES).filter(|other| *other != node).collect();
        others[usize::from(round.once_in(2))]
    }

    /// The role moves from a master that lives.
    fn hand_over(&mut self, round: &mut Round<'_>) -> Result<(), String> {
        let to = self.another(self.scene.master, round);
        round.event("hand-over", &format!(" to {}", self.name(to)));
        self.scene.fail_over(to)
    }

    fn trouble(&mut self, round: &mut Round<'_>) -> Result<(), String> {
        let master = self.scene.master;
        let on_master = round.once_in(2);
        let first = if on_master { master } else { self.another(master, round) };
        let mut troubles = vec![(Trouble::any(round.seed), first)];
        if round.once_in(4) {
            troubles.push((Trouble::any(round.seed), self.another(first, round)));
        }
        for (trouble, node) in &troubles {
            let role = if *node == master { "master" } else { "standby" };
            let auto = if self.auto_failover { ", auto_failover" } else { "" };
            round.event(&trouble.to_string(), &format!(" {} ({role}{auto})", self.name(*node)));
            trouble.begin(&self.scene.testbed, *node);
        }
        if on_master && troubles.len() == 1 && troubles[0].0.takes_away() {
            self.follow_the_master(round)?;
        }
        self.hold(Duration::from_millis(LEAST_MS + round.seed.below(MORE_MS)));
        let unasked = self.ended_by_themselves(&troubles, round);
        for (trouble, node) in &troubles {
            trouble.end(&self.scene.testbed, *node);
        }
        if unasked.is_empty() { Ok(()) } else { Err(format!("nobody asked for it: {unasked}")) }
    }

    /// Daemons that ended though nothing was done to them that ends a daemon.
    fn ended_by_themselves(&self, troubles: &[(Trouble, usize)], round: &mut Round<'_>) -> String {
        let mut unasked = String::new();
        for node in 0..NODES {
            let excused =
                |(trouble, at): &(Trouble, usize)| *at == node && trouble.may_end_daemons();
            for daemon in [masterd_of(node), noded_of(node)] {
                let ended = self.scene.testbed.daemons.take_ended(&daemon);
                let Some(status) = ended else { continue };
                round.event("ended by itself", &format!(": {daemon} {}", ending(status)));
                if !troubles.iter().any(excused) {
                    write!(unasked, "{daemon} ended {}; ", ending(status))
                        .expect("text takes every word");
                }
            }
        }
        unasked
    }

    /// Somebody takes the role of a master that is gone, or nobody does.
    fn follow_the_master(&mut self, round: &mut Round<'_>) -> Result<(), String> {
        let begun = Instant::now();
        let (kind, next) = match self.auto_failover {
            _ if round.once_in(3) => return Ok(()),
            true => {
                let next = self.successor().ok_or("nobody took the role by itself")?;
                ("automatic failover", next)
            }
            false => {
                let to = self.another(self.scene.master, round);
                self.scene.fail_over(to)?;
                ("manual failover", to)
            }
        };
        let seconds = begun.elapsed().as_secs_f64();
        round.event(kind, &format!(" to {} in {seconds:.1} s", self.name(next)));
        Ok(())
    }

    /// Another master than the last one, in time.
    fn successor(&self) -> Option<usize> {
        let begun = Instant::now();
        while begun.elapsed() < BY_ITSELF_WITHIN {
            let others = (0..NODES).filter(|node| *node != self.scene.master);
            let mut masters = others.filter(|node| self.scene.testbed.is_master(*node));
            if let Some(next) = masters.next() {
                return Some(next);
            }
            pass(PIECE);
        }
        None
    }
}
