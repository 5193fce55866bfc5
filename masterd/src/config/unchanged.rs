//! Core: whether documents are what somebody saw who rests a change on that: of two changes of one state,
//! one is made.

use model::error::ErrorCode;
use model::opcode::common::{CHANGED_MEANWHILE, Unchanged};
use model::{Exception, document};
use sha2::{Digest as _, Sha256};

use super::table::Config;

impl Config {
    /// The digest of a document: SHA-256 in hexadecimal. Secrets have none.
    pub fn digest(&self, key: &str) -> Option<String> {
        let content = self.content(key).filter(|_content| !document::is_secret(key))?;
        Some(hex::encode(Sha256::digest(content)))
    }

    /// Refuses a change that rests on documents which are others by now.
    ///
    /// # Errors
    /// One of them is.
    pub fn check_unchanged(&self, seen: &[Unchanged]) -> Result<(), Exception> {
        match seen.iter().find(|Unchanged(key, digest)| self.digest(key) != *digest) {
            None => Ok(()),
            Some(Unchanged(key, _)) => {
                let text = format!("{} {CHANGED_MEANWHILE}", stdx::text::line(key));
                Err(Exception::prereq(text, ErrorCode::WrongState))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigChange;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, spec};

    #[test]
    fn what_changed_meanwhile_is_refused() {
        let mut config = config(&[]);
        let machine = register(&config, &[spec("s 1", 0, "worker")], NOW).unwrap().remove(0);
        let key = format!("{}/{}", document::MACHINES, machine.serial.escaped());
        let absent = [Unchanged(key.clone(), None)];
        config.check_unchanged(&absent).unwrap();
        config.apply([ConfigChange::Machine(machine.clone())]);
        let seen = [Unchanged(key.clone(), config.digest(&key))];
        config.check_unchanged(&seen).unwrap();
        assert!(config.check_unchanged(&absent).is_err());
        config.apply([ConfigChange::Machine(model::machine::Machine {
            role: "boot".to_owned(),
            ..machine
        })]);
        let told = config.check_unchanged(&seen).unwrap_err();
        assert!(told.message().ends_with(CHANGED_MEANWHILE), "{told}");
        for key in [document::CLUSTER, "config/nodes/n1.example", document::IPAM] {
            assert!(config.digest(key).is_some_and(|digest| digest.len() == 64), "{key}");
        }
        for key in [document::VAULT, document::DHCP, "nothing", "machines/", "machines/s2"] {
            assert_eq!(config.digest(key), None, "{key}");
        }
    }
}
