// Package dsn reads DSNs of MySQL. It is apart from package client, since programs on other stores link no client of MySQL.
package dsn

import (
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Login returns user and password of the DSN in a file, where somebody may have replaced them. If there is no such
// file, or no DSN in it, as while it is being written, it returns those of before.
func Login(file, user, password string) (nowUser, nowPassword string) {
	if file == "" {
		return user, password
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return user, password
	}
	c, err := mysql.ParseDSN(strings.TrimSpace(string(content)))
	if err != nil {
		return user, password
	}
	return c.User, c.Passwd
}
