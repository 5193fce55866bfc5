//! The source of the next boot: which settings controllers take, which they keep, and which they only
//! claim.

use http::Method;
use model::bmc::BootOnce;
use model::inventory::text;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Redfish, takes};
use crate::error::BmcError;

/// One way to ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    target: &'static str,
    /// Whether it names the mode of the firmware, which some controllers refuse to change.
    has_mode: bool,
    /// Whether the system itself is changed, though it names an object for its settings.
    directly: bool,
}

impl Form {
    fn change(self) -> Value {
        let mut boot = json!({
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideTarget": self.target,
        });
        if self.has_mode {
            boot["BootSourceOverrideMode"] = "UEFI".into();
        }
        json!({ "Boot": boot })
    }
}

/// The ways in which this may be asked of a system, the best first.
fn forms(system: &Value, from: BootOnce) -> Vec<Form> {
    let boot = &system["Boot"];
    let targets: &[&'static str] = match from {
        BootOnce::Network => &["UefiHttp", "Pxe"],
        BootOnce::Disk => &["Hdd"],
    };
    let targets = targets.iter().filter(|target| takes(boot, "BootSourceOverrideTarget", target));
    let or_not = |is_known: bool| if is_known { &[true, false][..] } else { &[false][..] };
    let modes = or_not(boot["BootSourceOverrideMode"].is_string());
    // Many take changes only at the object for their settings, and some name one that takes none.
    let directly = if settings(system).is_some() { &[false, true][..] } else { &[true][..] };
    let mut forms = Vec::new();
    for target in targets {
        for has_mode in modes {
            let ways = directly.iter();
            forms.extend(ways.map(|directly| Form {
                target,
                has_mode: *has_mode,
                directly: *directly,
            }));
        }
    }
    forms
}

/// The object for the settings of a system (`@Redfish.Settings`).
fn settings(system: &Value) -> Option<&str> {
    system["@Redfish.Settings"]["SettingsObject"]["@odata.id"].as_str()
}

/// The object's setting for the next boot, where it is not the one that was asked for; none where it is.
/// Some say `Continuous` of what they do once.
fn difference(object: &Value, target: &str) -> Option<String> {
    let boot = &object["Boot"];
    let word = |name: &str| boot[name].as_str().map_or_else(|| "nothing".to_owned(), text);
    let (shown, enabled) = (word("BootSourceOverrideTarget"), word("BootSourceOverrideEnabled"));
    let is_kept = shown == target && ["Once", "Continuous"].contains(&enabled.as_str());
    (!is_kept).then(|| format!("target {shown}, enabled {enabled}"))
}

impl Redfish<'_> {
    /// Sets where the next boot comes from, and returns when the controller shows that it kept it.
    pub(crate) async fn boot_once(&mut self, from: BootOnce) -> Result<(), BmcError> {
        let path = self.enter().await?;
        let system = self.get(&path).await?;
        let settings = settings(&system).map(str::to_owned);
        let mut failure = None;
        for form in forms(&system, from) {
            let at = settings.as_deref().filter(|_| !form.directly).unwrap_or(&path);
            match self.change((&Method::PATCH, at), &form.change(), at).await {
                Ok(()) => {}
                // The next form may be taken.
                Err(error @ BmcError::Refused { .. }) => {
                    failure = failure.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            }
            match self.not_kept(&path, at, form.target).await? {
                None => return Ok(()),
                Some(shown) => {
                    let url = self.controller.url.to_string();
                    failure = Some(BmcError::NotKept { url, from, shown });
                }
            }
        }
        let what = format!("boot once from {}; it knows none of its names", from.as_str());
        Err(failure.unwrap_or_else(|| self.unsupported(what)))
    }

    /// The setting that is shown instead of this target, once the controller had the time to take it
    /// over; none where an object shows the target.
    async fn not_kept(
        &mut self,
        system: &str,
        settings: &str,
        target: &str,
    ) -> Result<Option<String>, BmcError> {
        let begun = Instant::now();
        loop {
            let mut seen = self.get(system).await.map(|object| difference(&object, target));
            if !matches!(seen, Ok(None)) && settings != system {
                seen = self.get(settings).await.map(|object| difference(&object, target));
            }
            if matches!(seen, Ok(None)) {
                return seen;
            }
            if begun.elapsed() >= self.controller.times.keep {
                return seen;
            }
            sleep(self.controller.times.look).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_go_from_the_best_to_the_simplest() {
        let told = |system: &Value, from| {
            let of = |form: Form| {
                let mode = if form.has_mode { "+mode" } else { "" };
                format!("{}{mode}{}", form.target, if form.directly { "" } else { "@settings" })
            };
            forms(system, from).into_iter().map(of).collect::<Vec<_>>()
        };
        let all = json!({
            "Boot": {"BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "UefiHttp"],
                "BootSourceOverrideMode": "Legacy"},
            "@Redfish.Settings": {"SettingsObject": {"@odata.id": "/s"}},
        });
        assert_eq!(
            told(&all, BootOnce::Network),
            [
                "UefiHttp+mode@settings",
                "UefiHttp+mode",
                "UefiHttp@settings",
                "UefiHttp",
                "Pxe+mode@settings",
                "Pxe+mode",
                "Pxe@settings",
                "Pxe"
            ]
        );
        assert_eq!(told(&all, BootOnce::Disk), [""; 0]);
        // A controller that does not say what it takes is asked all the same.
        for system in [
            json!({}),
            json!({"Boot": null}),
            json!({"Boot": {
            "BootSourceOverrideTarget@Redfish.AllowableValues": []}}),
        ] {
            assert_eq!(told(&system, BootOnce::Network), ["UefiHttp", "Pxe"], "{system}");
            assert_eq!(told(&system, BootOnce::Disk), ["Hdd"], "{system}");
        }
    }

    #[test]
    fn a_boot_is_kept_where_it_is_shown() {
        let shows = |target: Value, enabled: Value| {
            let boot =
                json!({"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled});
            difference(&json!({ "Boot": boot }), "Pxe")
        };
        assert_eq!(shows("Pxe".into(), "Once".into()), None);
        assert_eq!(shows("Pxe".into(), "Continuous".into()), None);
        for (target, enabled) in [
            (json!("Pxe"), json!("Disabled")),
            (json!("Pxe"), Value::Null),
            (json!("None"), json!("Once")),
            (Value::Null, Value::Null),
        ] {
            assert!(shows(target.clone(), enabled.clone()).is_some(), "{target} {enabled}");
        }
        assert!(difference(&Value::Null, "Pxe").is_some());
    }
}
