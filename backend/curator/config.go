package curator

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
)

// config is the section of a configuration file.
type config struct {
	ensemble.Config `yaml:",inline"`
	Root            string            `yaml:"root" json:"root"`
	Layout          string            `yaml:"layout" json:"layout"`
	Path            string            `yaml:"path" json:"path"`
	Paths           map[string]string `yaml:"paths" json:"paths"`
	Data            string            `yaml:"data" json:"data"`
	Last            string            `yaml:"last" json:"last"`
	Tick            time.Duration     `yaml:"tick" json:"tick"`
	MaxSession      time.Duration     `yaml:"max_session" json:"max_session"`
}

func (c *config) options() (o Options, err error) {
	a, err := c.Access()
	if err != nil {
		return o, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
	}
	return Options{
		Servers: a.Servers, User: a.User, Password: a.Password, InsecureAuth: a.InsecureAuth, ACL: a.ACL, TLS: a.TLS, PasswordFile: a.PasswordFile, CAFile: a.CAFile,
		Root: c.Root, Layout: Layout(c.Layout), Path: c.Path, Paths: c.Paths, Data: c.Data, Last: c.Last, Tick: c.Tick, MaxSession: c.MaxSession,
	}, nil
}
