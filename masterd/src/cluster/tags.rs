//! Opcodes on tags.

use jobs::locks::{Level, LockName, Mode};
use luxi::query::Pattern;
use model::error::ErrorCode;
use model::instance::Instance;
use model::opcode::{TagsDel, TagsGet, TagsSearch, TagsSet};
use model::tag::{self, TagKind};
use model::{Exception, InstanceName, NodeName, Timestamp, Uuid, Word};

use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// An object that has tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Cluster,
    Node(NodeName),
    /// By its UUID.
    Group(String),
    Network(Word),
    Instance(InstanceName),
}

impl Target {
    /// # Errors
    /// There is no such object.
    pub(crate) fn find(
        kind: TagKind,
        name: Option<&str>,
        config: &Config,
    ) -> Result<Self, Exception> {
        let name = name.unwrap_or_default();
        match kind {
            TagKind::Cluster => Ok(Self::Cluster),
            TagKind::Node => Ok(Self::Node(config.node(name)?.name.clone())),
            TagKind::NodeGroup => config.group(name).map(|group| Self::Group(group.uuid.clone())),
            TagKind::Instance => Ok(Self::Instance(config.instance(name)?.name.clone())),
            TagKind::Network => Ok(Self::Network(config.network(name)?.name.clone())),
        }
    }

    /// What it has.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn tags<'c>(&self, config: &'c Config) -> Result<&'c [String], Exception> {
        Ok(match self {
            Self::Cluster => &config.cluster.tags,
            Self::Node(name) => &config.node(name.as_str())?.tags,
            Self::Group(uuid) => &config.group(uuid)?.tags,
            Self::Network(name) => &config.network(name.as_str())?.tags,
            Self::Instance(name) => &config.instance(name.as_str())?.tags,
        })
    }

    /// The change that gives it these tags; none where it has just these.
    fn change(
        &self,
        tags: Vec<String>,
        config: &Config,
        now: Timestamp,
    ) -> Result<Vec<ConfigChange>, Exception> {
        if self.tags(config)? == tags.as_slice() {
            return Ok(Vec::new());
        }
        Ok(vec![match self {
            Self::Cluster => {
                let mut cluster = config.cluster.as_ref().clone();
                (cluster.tags, cluster.mtime) = (tags, now);
                cluster.serial_no += 1;
                ConfigChange::Cluster(cluster)
            }
            Self::Node(name) => {
                let mut node = config.node(name.as_str())?.as_ref().clone();
                (node.tags, node.mtime) = (tags, now);
                node.serial_no += 1;
                ConfigChange::Node(node)
            }
            Self::Group(uuid) => {
                let mut group = config.group(uuid)?.as_ref().clone();
                (group.tags, group.mtime) = (tags, now);
                group.serial_no += 1;
                ConfigChange::Group(group)
            }
            Self::Network(name) => {
                let mut network = config.network(name.as_str())?.as_ref().clone();
                (network.tags, network.mtime) = (tags, now);
                network.serial_no += 1;
                ConfigChange::Network(network)
            }
            Self::Instance(name) => {
                let instance = config.instance(name.as_str())?.changed(now);
                ConfigChange::Instance(Instance { tags, ..instance })
            }
        }])
    }

    /// Its lock, if it is one of this level. The cluster has none but the big lock.
    fn lock(&self, level: Level, mode: Mode, config: &Config) -> Wanted {
        match self {
            Self::Node(name) if level == Level::Node => {
                vec![(LockName::member(level, name.as_str()), mode)]
            }
            Self::Group(uuid) if level == Level::NodeGroup => {
                vec![(LockName::member(level, uuid.as_str()), mode)]
            }
            Self::Network(name) if level == Level::Network => {
                let network = config.networks.get(name);
                let lock = |uuid: &Uuid| (LockName::member(level, uuid.to_string()), mode);
                network.map(|network| lock(&network.uuid)).into_iter().collect()
            }
            Self::Instance(name) if level == Level::Instance => {
                vec![(LockName::member(level, name.as_str()), mode)]
            }
            _ => Vec::new(),
        }
    }
}

impl LogicalUnit for TagsGet {
    type Plan = Vec<String>;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        let target = Target::find(self.kind, self.name.as_deref(), config)?;
        Ok(if self.use_locking { target.lock(level, Mode::Shared, config) } else { Vec::new() })
    }

    async fn check(&self, context: &mut Context) -> Result<Vec<String>, Failure> {
        let config = context.config();
        let target = Target::find(self.kind, self.name.as_deref(), &config)?;
        Ok(target.tags(&config)?.to_vec())
    }

    async fn exec(self, tags: Vec<String>, _context: &mut Context) -> Result<Vec<String>, Failure> {
        Ok(tags)
    }
}

impl LogicalUnit for TagsSet {
    type Plan = Target;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        let target = Target::find(self.kind, self.name.as_deref(), config)?;
        Ok(target.lock(level, Mode::Exclusive, config))
    }

    async fn check(&self, context: &mut Context) -> Result<Target, Failure> {
        tag::check(&self.tags)?;
        Ok(Target::find(self.kind, self.name.as_deref(), &context.config())?)
    }

    async fn exec(self, target: Target, context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        context
            .transact(move |config| {
                Ok((target.change(tag::with(target.tags(config)?, &self.tags)?, config, now)?, ()))
            })
            .await
    }
}

impl LogicalUnit for TagsDel {
    type Plan = Target;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        let target = Target::find(self.kind, self.name.as_deref(), config)?;
        Ok(target.lock(level, Mode::Exclusive, config))
    }

    async fn check(&self, context: &mut Context) -> Result<Target, Failure> {
        tag::check(&self.tags)?;
        let config = context.config();
        let target = Target::find(self.kind, self.name.as_deref(), &config)?;
        tag::without(target.tags(&config)?, &self.tags)?;
        Ok(target)
    }

    async fn exec(self, target: Target, context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        context
            .transact(move |config| {
                Ok((
                    target.change(tag::without(target.tags(config)?, &self.tags)?, config, now)?,
                    (),
                ))
            })
            .await
    }
}

impl LogicalUnit for TagsSearch {
    type Plan = Pattern;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, _context: &mut Context) -> Result<Pattern, Failure> {
        Ok(Pattern::new(&self.pattern).map_err(|error| {
            let why = stdx::daemon::chain(&error);
            let text = format!("Invalid search pattern '{}': {why}", self.pattern);
            Exception::prereq(text, ErrorCode::WrongInput)
        })?)
    }

    async fn exec(
        self,
        pattern: Pattern,
        context: &mut Context,
    ) -> Result<Vec<(String, String)>, Failure> {
        let config = context.config();
        Ok(stdx::aside(|| search(&pattern, &config)))
    }
}

/// Every tag in which the pattern is found, with the path of its object.
fn search(pattern: &Pattern, config: &Config) -> Vec<(String, String)> {
    let nodes = config.nodes.values().map(|node| (format!("/nodes/{}", node.name), &node.tags));
    let networks = config.networks.values();
    let networks = networks.map(|network| (format!("/networks/{}", network.name), &network.tags));
    let groups = config.groups.values();
    let groups = groups.map(|group| (format!("/nodegroup/{}", group.name), &group.tags));
    let instances = config.instances.values();
    let instances =
        instances.map(|instance| (format!("/instances/{}", instance.name), &instance.tags));
    std::iter::once(("/cluster".to_owned(), &config.cluster.tags))
        .chain(nodes)
        .chain(networks)
        .chain(groups)
        .chain(instances)
        .flat_map(|(path, tags)| tags.iter().map(move |tag| (path.clone(), tag.clone())))
        .filter(|(_path, tag)| pattern.is_match(tag))
        .collect()
}

#[cfg(test)]
mod tests {
    use model::node::NodeRole;

    use super::*;
    use crate::testing::{NOW, config, node};

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn objects_are_found_by_kind_and_name() {
        let config = config(&[node("n2.example", NodeRole::Regular)]);
        let find = |kind, name| Target::find(kind, name, &config);
        assert_eq!(find(TagKind::Cluster, None), Ok(Target::Cluster));
        assert_eq!(find(TagKind::Cluster, Some("")), Ok(Target::Cluster));
        let name = "n2.example".parse().unwrap();
        assert_eq!(find(TagKind::Node, Some("n2")), Ok(Target::Node(name)));
        let uuid = &config.group("default").unwrap().uuid;
        for name in ["default", uuid] {
            let found = find(TagKind::NodeGroup, Some(name));
            assert_eq!(found, Ok(Target::Group(uuid.clone())));
        }
        for kind in [TagKind::Node, TagKind::NodeGroup, TagKind::Instance, TagKind::Network] {
            for name in [None, Some("nobody")] {
                let refused = find(kind, name).unwrap_err();
                assert_eq!(refused.args[1], ErrorCode::UnknownEntity.as_str(), "{kind:?} {name:?}");
            }
        }
    }

    #[test]
    fn tags_are_written_with_their_object_and_found_again() {
        let mut config = config(&[node("n2.example", NodeRole::Regular)]);
        let name = "n2.example".parse().unwrap();
        let uuid = config.group("default").unwrap().uuid.clone();
        for (target, tag) in
            [(Target::Cluster, "a:1"), (Target::Node(name), "a:2"), (Target::Group(uuid), "b:3")]
        {
            let tags = tag::with(target.tags(&config).unwrap(), &words(&[tag])).unwrap();
            let changes = target.change(tags.clone(), &config, NOW).unwrap();
            assert_eq!(config.apply(changes).documents.len(), 1, "{target:?}");
            assert_eq!(target.tags(&config).unwrap(), tags);
            assert!(target.change(tags, &config, NOW).unwrap().is_empty(), "nothing is new");
        }
        let found = |pattern: &str| search(&Pattern::new(pattern).unwrap(), &config);
        let pair = |path: &str, tag: &str| (path.to_owned(), tag.to_owned());
        assert_eq!(found("^a:"), [pair("/cluster", "a:1"), pair("/nodes/n2.example", "a:2")]);
        assert_eq!(found("3$"), [pair("/nodegroup/default", "b:3")]);
        assert_eq!(found("nothing"), []);
    }

    #[test]
    fn locks_are_those_of_the_object() {
        let config = config(&[]);
        let locks = |target: &Target| -> Vec<String> {
            let wanted = Level::ALL.into_iter();
            let wanted = wanted.flat_map(|level| target.lock(level, Mode::Exclusive, &config));
            wanted.map(|(name, _mode)| name.to_string()).collect()
        };
        assert_eq!(locks(&Target::Cluster), Vec::<String>::new());
        let node = Target::Node(config.role.master.clone());
        assert_eq!(locks(&node), ["node/n1.example"]);
        let uuid = config.group("default").unwrap().uuid.clone();
        assert_eq!(locks(&Target::Group(uuid.clone())), [format!("nodegroup/{uuid}")]);
    }
}
