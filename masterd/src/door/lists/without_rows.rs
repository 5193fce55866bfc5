//! Core: kinds of objects of which there are none yet: their fields, and lists without rows.
//!
//! Clients ask for these fields before there is the first object, and take a field that is not
//! known for a mistake.

use luxi::query::{Definitions, FieldDefinition, FieldKind, Filter, Table, select};
use model::Exception;

use crate::units::list::{exist, knows_all};

/// Shorthand of the tables.
macro_rules! definitions {
    ($($name:literal, $title:literal, $kind:ident, $doc:literal;)+) => {
        &[$(FieldDefinition::new($name, $title, FieldKind::$kind, $doc),)+]
    };
}

/// Fields of operating systems.
pub(crate) const OS: &[FieldDefinition] = definitions! {
    "api_versions", "ApiVersions", Other, "Versions of the interface that its scripts know";
    "blacklisted", "Blacklisted", Bool, "Whether it is refused for new instances";
    "hidden", "Hidden", Bool, "Whether lists leave it out";
    "name", "Name", Text, "Operating system name";
    "node_status", "NodeStatus", Other, "What each node has of it";
    "os_hvp", "OsHypervisorParams", Other, "Hypervisor parameters for it";
    "osparams", "OsParameters", Other, "Parameters for it";
    "parameters", "Parameters", Other, "Parameters that it takes";
    "trusted", "Trusted", Bool, "Whether its scripts run on the node itself";
    "valid", "Valid", Bool, "Whether all nodes have it whole";
    "variants", "Variants", Other, "Its variants";
};

/// Fields of storage providers.
pub(crate) const EXT_STORAGE: &[FieldDefinition] = definitions! {
    "name", "Name", Text, "Provider name";
    "node_status", "NodeStatus", Other, "What each node has of it";
    "nodegroup_status", "NodegroupStatus", Other, "Whether the groups have it whole";
    "parameters", "Parameters", Other, "Parameters that it takes";
};

/// The definitions of the `wanted` fields, or of all; none wanted stands for all, too.
pub(crate) fn describe(known: &[FieldDefinition], wanted: Option<&[String]>) -> Definitions {
    Definitions {
        fields: match wanted {
            Some(wanted) if !wanted.is_empty() => select(wanted, known),
            _ => known.to_vec(),
        },
    }
}

/// A list without rows.
///
/// # Errors
/// The filter names a field that does not exist.
pub(crate) fn empty(
    known: &[FieldDefinition],
    wanted: &[String],
    filter: Option<&Filter>,
) -> Result<Table, Exception> {
    knows_all(filter, |name| known.iter().any(|field| field.name == name))?;
    Ok(Table { fields: select(wanted, known), data: Vec::new() })
}

/// Bare values of no object.
///
/// # Errors
/// A field does not exist.
pub(crate) fn bare<T>(known: &[FieldDefinition], wanted: &[String]) -> Result<Vec<T>, Exception> {
    exist(wanted, |name| known.iter().any(|field| field.name == name))?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_told_without_rows_too() {
        let wanted = ["name".to_owned(), "nonsense".to_owned()];
        let table = empty(EXT_STORAGE, &wanted, None).unwrap();
        assert_eq!(table.fields[1].kind, FieldKind::Unknown);
        let filter = Filter::any_of("nonsense", ["x"]);
        assert!(empty(EXT_STORAGE, &wanted, Some(&filter)).is_err());
        assert!(bare::<u8>(EXT_STORAGE, &wanted).unwrap_err().message().ends_with(": nonsense"));
        assert_eq!(bare::<u8>(EXT_STORAGE, &wanted[..1]), Ok(Vec::new()));
        assert_eq!(describe(EXT_STORAGE, Some(&[])).fields.len(), 4);
    }
}
