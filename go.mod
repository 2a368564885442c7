module github.com/go-election/go-election

go 1.26.0
