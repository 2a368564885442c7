// Command elect runs a program only while this process leads, shows who leads, and
// carries out requests of an operator, on any of the stores.
//
//	elect run billing -- ./bill
//
// "elect --help" lists the commands.
package main

import (
	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/internal/elect"
)

func main() { elect.Main(nil) }
