//! The services that an agent has started.

use super::answers::Answers;
use super::input::Job;
use super::jobs::Handle;
use crate::protocol::message::{ServiceRequest, Started};
use hoptax_format::Address;
use hoptax_lab::Service;
use hoptax_record::{Failure, Stage};
use std::collections::BTreeMap;

/// The services, by number.
#[derive(Default)]
pub(super) struct ServicesById {
    services: BTreeMap<u64, Box<dyn Service>>,
    last: u64,
}

impl ServicesById {
    /// Keeps a service that was started. Returns what its runner needs to know.
    pub(super) fn add(&mut self, service: Box<dyn Service>, tls_upstreams: Vec<Address>) -> Started {
        self.last += 1;
        // A controller keeps the guard from noticing our death, so it is dropped at once.
        let controller = service.controller();
        let started = Started {
            service: self.last,
            endpoints: service.endpoints(),
            has_credentials: service.facts().change.credentials.is_some(),
            facts: service.facts().clone(),
            process: service.process(),
            has_controller: controller.is_some(),
            can_reload: controller.is_some_and(|controller| controller.can_reload()),
            tls_upstreams,
        };
        self.services.insert(self.last, service);
        started
    }

    /// Answers a request about a service.
    pub(super) fn handle(&mut self, job: Job, service: u64, request: ServiceRequest, answers: &Answers) {
        let id = job.id;
        if matches!(request, ServiceRequest::Drop) {
            self.services.remove(&service);
            return answers.answer(id, Ok(()));
        }
        let Some(service) = self.services.get_mut(&service) else {
            let message = format!("there is no service {service}");
            return answers.answer::<()>(id, Err(Failure::new(Stage::Trial, message)));
        };
        match request {
            ServiceRequest::Drop => {}
            ServiceRequest::Check => answers.answer(id, service.check()),
            ServiceRequest::Stop => {
                service.stop();
                answers.answer(id, Ok(()));
            }
            ServiceRequest::Observe => answers.answer(id, Ok(service.observe())),
            ServiceRequest::Ledger => {
                let ledger = service.ledger().map(|ledger| ledger.map_err(|error| format!("{error:#}")));
                answers.answer(id, Ok(ledger));
            }
            ServiceRequest::LogTails => answers.answer(id, Ok(service.log_tails())),
            ServiceRequest::Began => answers.answer(id, Ok(service.began_ns())),
            ServiceRequest::Process => answers.answer(id, Ok(service.process())),
            ServiceRequest::Used { from_ns, to_ns } => {
                answers.answer(id, Ok(service.used(from_ns, to_ns)));
            }
            ServiceRequest::Act(action) => {
                Handle::new(job, answers).act(service.controller(), action);
            }
        }
    }
}
