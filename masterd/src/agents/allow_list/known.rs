//! Core: what is known of the list of callers that an agent has, and when it must be told the
//! master's.
//!
//! An agent tells a digest of its list in each exchange. Its list differs from the master's if it was
//! away when the list changed, or if a master ended between a change and telling it. It also differs if
//! the role went back to an older copy of the configuration.

/// The known state of one agent's list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Known {
    /// The list's digest: as the agent told, or of what it took since.
    held: Option<String>,
    /// Why it did not take the list that it was told last; none if it did.
    why: Option<String>,
}

impl Known {
    /// Whether the agent is known to have the list of this digest.
    pub(super) fn has(&self, wanted: &str) -> bool {
        self.held.as_deref() == Some(wanted)
    }

    /// Notes what the agent told in an exchange, which may have been on its way for a while. The result
    /// says whether the agent is due to be told the list of digest `wanted`. An agent that `was_away`
    /// always is: the push skips a list that it has. Another agent is due only for news: what was known
    /// before is being seen to.
    pub(super) fn reported(
        &mut self,
        reported: Option<&str>,
        was_away: bool,
        wanted: &str,
    ) -> bool {
        let is_news = reported.is_some_and(|reported| !self.has(reported));
        // An agent that reports nothing has what it took, as long as it was not away.
        if was_away || is_news {
            self.held = reported.map(str::to_owned);
        }
        was_away || (is_news && !self.has(wanted))
    }

    /// Notes what came of telling the agent the list of this digest.
    pub(super) fn told(&mut self, digest: String, told: &Result<(), String>) {
        match told {
            Ok(()) => *self = Self { held: Some(digest), why: None },
            Err(why) => self.why = Some(why.clone()),
        }
    }

    /// Why the agent has not the list of digest `wanted`, as far as is known; none if it has it, or
    /// if nothing speaks against that.
    pub(super) fn lacks(&self, wanted: &str) -> Option<String> {
        if self.has(wanted) || (self.held.is_none() && self.why.is_none()) {
            return None;
        }
        Some(self.why.clone().unwrap_or_else(|| "it was not told yet".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(held: Option<&str>) -> Known {
        Known { held: held.map(str::to_owned), why: None }
    }

    #[test]
    fn who_has_another_list_is_told_once_by_what_it_tells() {
        let (ours, old) = (Some("ours"), Some("old"));
        for (was_away, before, reported, after, is_due) in [
            // Found again: whatever was known, what it tells now counts.
            (true, None, ours, ours, true),
            (true, ours, old, old, true),
            (true, old, old, old, true),
            (true, ours, None, None, true),
            // All is well.
            (false, ours, ours, ours, false),
            // It took it, and the answer was lost, or another one told it.
            (false, old, ours, ours, false),
            (false, None, ours, ours, false),
            // It took ours, and has another one all the same.
            (false, ours, old, old, true),
            (false, None, old, old, true),
            (false, Some("older"), old, old, true),
            // The other list is known, and ours is told again after a pause.
            (false, old, old, old, false),
            // It cannot tell.
            (false, ours, None, ours, false),
            (false, None, None, None, false),
        ] {
            let mut seen = known(before);
            let case = format!("{was_away} {before:?} {reported:?}");
            assert_eq!(seen.reported(reported, was_away, "ours"), is_due, "{case}");
            assert_eq!(seen, known(after), "{case}");
        }
    }

    #[test]
    fn a_refusal_is_the_reason_until_the_list_is_there() {
        let mut seen = known(None);
        assert_eq!(seen.lacks("ours"), None, "one that does not tell, before it was told");
        seen.told("ours".to_owned(), &Err("its disk is full".to_owned()));
        assert_eq!(seen.lacks("ours").as_deref(), Some("its disk is full"));
        seen.reported(Some("old"), false, "ours");
        assert_eq!(seen.lacks("ours").as_deref(), Some("its disk is full"));
        seen.told("ours".to_owned(), &Ok(()));
        assert!(seen.has("ours") && seen.lacks("ours").is_none());
        assert_eq!(seen.lacks("newer").as_deref(), Some("it was not told yet"));
    }
}
