package consulagent

import (
	"context"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Inspect reports the agent and the servers behind it: whether
// they have a leader, how many there are, and how many can fail. Version and health need rights
// that leases do not need (agent:read, operator:read); without them Inspect says so.
func (a *Agent) Inspect(ctx context.Context) (list []backend.Diagnostic, err error) {
	const verb = "inspect"
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	query := (&api.QueryOptions{}).WithContext(ctx)
	leader, err := a.Client.Status().LeaderWithQueryOptions(query)
	if err != nil {
		return nil, a.Wrap(verb, err)
	}
	peers, err := a.Client.Status().PeersWithQueryOptions(query)
	if err != nil {
		return nil, a.Wrap(verb, err)
	}
	servers := len(peers)
	switch {
	case leader == "":
		add(true, "servers", "%d, and none leads: there is no majority, so nothing can be written", servers)
	case servers == 1:
		add(false, "servers", "one, %s: nobody can lead while it is down, and all members watch anew if its disk is lost", leader)
	default:
		add(servers%2 == 0, "servers", "%d; %s leads, and %d of them can fail", servers, leader, (servers-1)/2)
	}

	health, err := a.Client.Operator().AutopilotServerHealth(query)
	switch {
	case denied(err):
		add(false, "health", `not shown to this token: it needs operator = "read", which leases do not need`)
	case err != nil:
		add(true, "health", "%v", a.Wrap(verb, err))
	default:
		versions := map[string]bool{}
		for _, s := range health.Servers {
			versions[s.Version] = true
			if !s.Healthy {
				add(true, "health", "server %s (%s) is not healthy: serf status %s, last contact with the leader %v ago", s.Name, s.Address, s.SerfStatus, s.LastContact)
			}
		}
		add(!health.Healthy || servers > 1 && health.FailureTolerance == 0, "health", "the servers report healthy: %v; %d of them can fail now", health.Healthy, health.FailureTolerance)
		if len(versions) > 1 {
			add(true, "health", "the servers' versions differ; they should differ only during an upgrade")
		}
	}

	var self struct {
		Config struct {
			Version, Datacenter, NodeName string
			Server                        bool
		}
		DebugConfig struct{ HTTPMaxConnsPerClient int }
	}
	_, err = a.Client.Raw().Query("/v1/agent/self", &self, query)
	switch c := self.Config; {
	case denied(err):
		add(false, "agent", `version and role are not shown to this token: it needs agent_prefix "" { policy = "read" }, which leases do not need`)
	case err != nil:
		add(true, "agent", "%v", a.Wrap(verb, err))
	default:
		add(false, "agent", "Consul %s on %s in %s; %s", c.Version, c.NodeName, c.Datacenter,
			map[bool]string{true: "a server: while it is down, this process has no store", false: "a client, which finds another server if one fails"}[c.Server])
		if most := self.DebugConfig.HTTPMaxConnsPerClient; most > 0 && most < fewConns {
			add(true, "connections", "http_max_conns_per_client is %d: all processes on a machine share them, and each keeps up to %d", most, MaxConns)
		}
	}
	return list, nil
}

// MaxConns is how many connections a process keeps. An agent that allows one address fewer than fewConns has no place for
// a process and its guard, or for a second one.
const (
	MaxConns = 5
	fewConns = 2 * MaxConns
)

// denied reports whether a right is missing.
func denied(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "ermission denied") || strings.Contains(err.Error(), "ACL not found"))
}
