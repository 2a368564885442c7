package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// The pictures in the repository are what the program draws from the tables and the recording.
func TestThePicturesAreDrawnFromThePage(t *testing.T) {
	drawn, err := draw("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range drawn {
		got, err := os.ReadFile("../../" + images + "/" + name)
		if err != nil || string(got) != want {
			t.Errorf("docs/images/%s is not what docs/bench.md and the recording say (%v); run: go run ./scripts/pictures", name, err)
		}
	}
}

func TestPicturesAreWellFormedXML(t *testing.T) {
	drawn, err := draw("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, picture := range drawn {
		d := xml.NewDecoder(strings.NewReader(picture))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !strings.Contains(picture, "prefers-color-scheme: dark") {
			t.Errorf("%s has no dark colors", name)
		}
	}
}

// A terminal's output becomes the text of its last screen.
func TestTheLastScreenOfARecordingIsKept(t *testing.T) {
	got := lastScreen("\x1b[Helect demo\x1b[K\r\n  anna ··\x1b[K\r\n\x1b[J\x1b[Helect demo\x1b[K\r\n  anna ·█\x1b[K\r\n\x1b[J 1 time without a leader.\r\n")
	if want := "elect demo\n  anna ·█\n 1 time without a leader.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
