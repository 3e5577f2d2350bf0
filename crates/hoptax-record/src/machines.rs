//! The machines and networks that the requests of a trial pass.

use crate::{DIRECT, HostUsage, NetworkUsage, Role, TrialHost, TrialRecord};

impl TrialRecord {
    /// The machines that the requests of this trial pass: the generator's, the upstream's and, unless the
    /// trial is direct, the gateway's. Each item has the machine's name and how its CPUs were used. The name
    /// is absent for the generator's machine.
    pub fn machines(&self) -> impl Iterator<Item = (Option<&str>, &HostUsage)> {
        let is_direct = self.contender == DIRECT;
        let passes = move |role: &Role| *role != Role::Gateway || !is_direct;
        let others = self.hosts.iter().filter(move |(_, host)| host.roles.iter().any(passes));
        let others = others.filter_map(|(name, host)| Some((Some(name.as_str()), host.usage.as_ref()?)));
        std::iter::once((None, &self.host)).chain(others)
    }

    /// Name of the machine of a role; absent if it is the generator's machine. With several generators, this
    /// is the machine of the first one.
    pub fn machine_of(&self, role: Role) -> Option<&str> {
        if role == Role::Generator {
            return None;
        }
        self.hosts.iter().find(|(_, host)| host.roles.contains(&role)).map(|(name, _)| name.as_str())
    }

    /// The networks that the requests of this trial pass, as [`Self::machines`] lists machines. The last
    /// value is true if the gateway connects from this network.
    pub fn networks(&self) -> impl Iterator<Item = (Option<&str>, &NetworkUsage, bool)> {
        let is_direct = self.contender == DIRECT;
        let passes = move |role: &Role| *role != Role::Gateway || !is_direct;
        let others = self.hosts.iter().filter(move |(_, host)| host.network_roles.iter().any(passes));
        let has_gateway = |host: &TrialHost| host.network_roles.contains(&Role::Gateway);
        let is_near = !self.hosts.values().any(has_gateway);
        let others = others.filter_map(move |(name, host)| {
            Some((Some(name.as_str()), host.network.as_ref()?, has_gateway(host) && !is_direct))
        });
        let own = self.network.iter().map(move |network| (None, network, is_near && !is_direct));
        own.chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::tests::trial;
    use std::collections::BTreeMap;

    /// A trial with a generator here, a gateway on `edge` and an upstream on `app`.
    fn on_hosts(contender: &str) -> TrialRecord {
        let host = |role| {
            let (roles, network_roles) = (vec![role], vec![role]);
            let (usage, network) = (Some(HostUsage::default()), Some(NetworkUsage::default()));
            TrialHost { roles, network_roles, usage, network }
        };
        let mut trial = TrialRecord { contender: contender.into(), ..trial(0) };
        trial.network = Some(NetworkUsage::default());
        trial.hosts.insert("edge".into(), host(Role::Gateway));
        trial.hosts.insert("app".into(), host(Role::Upstream));
        trial
    }

    #[test]
    fn direct_requests_do_not_pass_the_gateways_machine() {
        let (direct, via) = (on_hosts(DIRECT), on_hosts("nginx"));
        let machines = |trial: &TrialRecord| {
            trial.machines().map(|(name, _)| name.unwrap_or("here").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(machines(&direct), ["here", "app"]);
        assert_eq!(machines(&via), ["here", "app", "edge"]);
        let networks = |trial: &TrialRecord| {
            let shown = |(name, _, connects): (Option<&str>, &NetworkUsage, bool)| {
                (name.map(str::to_owned), connects)
            };
            trial.networks().map(shown).collect::<Vec<_>>()
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(networks(&direct), [(None, false), (named("app"), false)]);
        assert_eq!(networks(&via), [(None, false), (named("app"), false), (named("edge"), true)]);
        assert_eq!(via.machine_of(Role::Gateway), Some("edge"));
        assert_eq!(via.machine_of(Role::Generator), None);
        let alone = TrialRecord { hosts: BTreeMap::new(), ..via };
        assert_eq!(networks(&alone), [(None, true)]);
    }
}
