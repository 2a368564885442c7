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
	Tick            time.Duration     `yaml:"tick" json:"tick"`
	Session         time.Duration     `yaml:"session" json:"session"`
}

func (c *config) options() (o Options, err error) {
	a, err := c.Access()
	if err != nil {
		return o, fmt.Errorf("curator: %w: %w", backend.ErrInvalid, err)
	}
	return Options{
		Servers: a.Servers, User: a.User, Password: a.Password, InsecureAuth: a.InsecureAuth, ACL: a.ACL, TLS: a.TLS, PasswordFile: a.PasswordFile, CAFile: a.CAFile,
		Root: c.Root, Layout: Layout(c.Layout), Path: c.Path, Paths: c.Paths, Data: c.Data, Tick: c.Tick, Session: c.Session,
	}, nil
}
