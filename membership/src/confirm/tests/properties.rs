//! Any answers of any nodes.

use super::*;

fn any_position() -> impl Strategy<Value = Position> {
    (1_u64..4, 1_u64..5, 0_u64..6).prop_map(|(term, node, index)| at(term, node, index))
}

prop_compose! {
    fn any_store(member: u64)(
        last in any_position(), behind in 0_u64..3, ahead in any::<bool>(), other in 0_u8..8,
        leads in proptest::bool::weighted(0.1), disk_full in proptest::bool::weighted(0.1),
        role in proptest::option::of((1_u64..4, 1_u64..6)),
    ) -> StoreSays {
        let mut committed = last;
        committed.index = if ahead { last.index + behind } else { last.index.saturating_sub(behind) };
        let found = match other {
            0 => Found::Nothing,
            1 => found(member + 1, last),
            _ => found(member, last),
        };
        let role = role.map(|(term, master)| role_entry(master, term));
        StoreSays { found, committed, vote: epoch(3, if leads { member } else { 1 }), role, leads, disk_full, last_job: None }
    }
}

prop_compose! {
    fn any_node(number: u64)(
        seat in 0_u8..4, witness in proptest::bool::weighted(0.2), role in 0_u8..6, agent in proptest::option::of((0_u64..5, 1_u64..5, 1_u64..6)),
        store in proptest::option::of(any_store(number)),
    ) -> Asked {
        let seat = [Some(Voting::Voter), Some(Voting::Learner), Some(Voting::Voter), None][usize::from(seat)];
        let silent = || Err(silence());
        Asked {
            name: name(number),
            role: if role == 0 { NodeRole::Offline } else { NodeRole::Candidate },
            member: seat.map(|seat| Member { seat, witness, expected: expected(number) }),
            agent: agent.map_or_else(silent, |(term, node, master)| {
                Ok(AgentSays { obeys: epoch(term, node), master: Some(name(master)) })
            }),
            store: seat.map(|_| store.map_or_else(|| Err(silence()), Ok)),
        }
    }
}

prop_compose! {
    fn any_question()(
        nodes in (any_node(1), any_node(2), any_node(3), any_node(4), any_node(5)), len in 1_usize..6,
        taker in 1_u64..6, starts in any::<bool>(), candidates_only in any::<bool>(),
        no_voting in any::<bool>(), yes_do_it in any::<bool>(),
        ignored in proptest::collection::btree_set(1_u64..6, 0..3),
    ) -> Question {
        let mut nodes = vec![nodes.0, nodes.1, nodes.2, nodes.3, nodes.4];
        nodes.truncate(len);
        let ignored = ignored.into_iter().map(name).collect();
        Question {
            attempt: if starts { Attempt::Start } else { Attempt::Failover },
            waivers: Waivers { candidates_only, no_voting, yes_do_it, ignored },
            taker: name(taker),
            next_member: 6,
        voters: Vec::new(),
        later: None,
            nodes,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The promise of `Go`, computed in another way.
    #[test]
    fn who_goes_has_majorities_and_nobody_is_newer(question in any_question()) {
        let verdict = confirm(&question);
        prop_assert_eq!(verdict.rows.len(), question.nodes.len());
        let source = match &verdict.decision {
            Decision::Go => None,
            Decision::GoAfterFetching { from } => Some(*from),
            Decision::Override { waived, .. } => {
                prop_assert!(question.waivers.no_voting && question.waivers.yes_do_it);
                prop_assert!(!waived.is_empty());
                let loses = |reason: &Reason| {
                    matches!(reason, Reason::Newer { .. } | Reason::VotersForgot { .. })
                };
                prop_assert!(!verdict.voters.is_majority() || waived.iter().any(loses));
                prop_assert!(!is_witness(&question));
                return Ok(());
            }
            Decision::Refuse { reasons } => {
                prop_assert!(!reasons.is_empty());
                return Ok(());
            }
        };
        prop_assert!(!is_witness(&question));
        let row = |member: u64| verdict.rows.iter().find(|row| row.node == name(member));
        let own = row_of(&verdict, &question.taker);
        prop_assert!(own.is_some_and(|own| own.position.is_some()));
        let voters = verdict.rows.iter().filter(|row| row.counts_as_voter).count();
        let seats = question.nodes.iter().filter(|n| n.member.is_some_and(|m| m.seat.votes()));
        prop_assert!(2 * voters > seats.count());
        prop_assert!(question.waivers.candidates_only || verdict.nodes.is_majority());
        let fetched = source.and_then(row).and_then(|row| row.position);
        let reach = own.and_then(|own| own.position).max(fetched);
        // A leader has all that is committed, and entries of others beyond it will be cut.
        let leads = |member: u64| {
            let node = question.nodes.iter().find(|node| node.name == name(member));
            node.and_then(|node| node.store.as_ref()?.as_ref().ok()).is_some_and(|says| says.leads)
        };
        if !source.is_some_and(leads) {
            // Nobody who has a vote that counts holds more, and a majority has.
            let mut voters = verdict.rows.iter().filter(|row| row.counts_as_voter);
            prop_assert!(voters.all(|row| row.position <= reach));
            // Nobody knows of more that is committed, whether it counts or not.
            for (row, node) in verdict.rows.iter().zip(&question.nodes) {
                let says = node.store.as_ref().and_then(|store| store.as_ref().ok());
                let committed = says.filter(|_| row.position.is_some()).map(|says| says.committed);
                prop_assert!(committed <= reach);
            }
        }
        if let Some(row) = source.and_then(row) {
            prop_assert!(row.node != question.taker);
        }
        // A leader keeps anybody else from being elected, so it is asked, unless it is to be ignored.
        prop_assert!(source.is_none_or(|source| leads(source) || row(source).is_some_and(|r| r.counts_as_voter)));
        let counts = |row: &Row| {
            row.position.is_some() && !question.waivers.ignored.contains(&row.node)
        };
        let mut others =
            verdict.rows.iter().filter(|row| row.node != question.taker && counts(row));
        let led = others.any(|row| (1..6).any(|member| row.node == name(member) && leads(member)));
        prop_assert_eq!(led, source.is_some_and(leads));
        if question.attempt == Attempt::Start {
            let stores = question.nodes.iter().filter(|node| {
                row_of(&verdict, &node.name).is_some_and(counts)
            });
            let roles = stores.filter_map(|n| n.store.as_ref()?.as_ref().ok()?.role.as_ref());
            let newest = roles.map(|entry| entry.epoch).max();
            prop_assert!(newest.is_some_and(|epoch| name(epoch.node) == question.taker));
        }
    }

    /// More silence never turns a refusal into leave.
    #[test]
    fn a_voter_that_falls_silent_helps_nobody(question in any_question(), gone in 0_usize..5) {
        let leave = |decision: &Decision| {
            matches!(decision, Decision::Go | Decision::GoAfterFetching { .. })
        };
        let before = confirm(&question);
        let mut after = question.clone();
        if gone < after.nodes.len() && before.rows[gone].counts_as_voter {
            kill(&mut after.nodes[gone]);
            let verdict = confirm(&after);
            prop_assert!(verdict.voters.answered < before.voters.answered);
            prop_assert!(verdict.nodes.answered <= before.nodes.answered);
            let too_few = !before.voters.is_majority();
            prop_assert!(!(too_few && leave(&verdict.decision)));
        }
    }
}

fn is_witness(question: &Question) -> bool {
    let taker = question.nodes.iter().find(|node| node.name == question.taker);
    taker.and_then(|node| node.member).is_some_and(|member| member.witness)
}

fn row_of<'a>(verdict: &'a Verdict, node: &NodeName) -> Option<&'a Row> {
    verdict.rows.iter().find(|row| row.node == *node)
}
