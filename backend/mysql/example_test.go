package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"log"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
)

// A leader's transaction commits only if no later term has been granted, even if this process
// was stopped in the middle. (The example has no output: it needs a server.)
func ExampleFence_Do() {
	ctx, dsn := context.Background(), "app:secret@tcp(127.0.0.1:3306)/app"
	db, err := sql.Open("mysql", dsn) // the server that keeps the leases
	if err != nil {
		log.Fatal(err)
	}
	var e *election.Election // of a manager on mysql.Open(mysql.Options{DSN: dsn})
	err = e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		err := mysql.Fence{}.Do(ctx, db, lead.Election(), lead.Term, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 7")
			return err
		})
		if errors.Is(err, mysql.ErrFenced) {
			log.Println("another leads by now; nothing was written")
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
