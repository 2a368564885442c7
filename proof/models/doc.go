// Package models holds models of the protocol, in Promela, and a test that has
// spin search them to the end. README.md says what they say.
package models
