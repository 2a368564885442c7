// Command elect is the command of the main module, with Kubernetes besides the other stores. The
// main module's command does not have client-go in it.
package main

import (
	_ "github.com/go-election/go-election/backend/all"
	_ "github.com/go-election/go-election/backend/kubernetes"
	"github.com/go-election/go-election/internal/elect"
)

func main() { elect.Main() }
