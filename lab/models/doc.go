// Package models has models of the protocol in Promela, and a test that searches them
// completely with spin. README.md explains what the models show.
package models
