// One is a program that imports one backend. It prints which one is configured.
package main

import (
	"fmt"
	"os"

	_ "github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/config"
)

func main() {
	c, err := config.Load(os.Args[1], config.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("backend:", c.Backend)
}
